"""What tau2-bench's bank does with debit cards that are in use; agents must unlock these tools."""

from __future__ import annotations

import json
from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    days_since,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.benchmarks._tau_bench.bank_debit import (
    DebitCardTools,
    check_digits,
    check_pin,
    four_digits,
)
from chimera.eval.benchmarks._tau_bench.bank_tools import LISTED, inner, need_all

CLOSING_REASONS = (
    "lost",
    "stolen",
    "fraud_suspected",
    "damaged",
    "no_longer_needed",
    "account_closing",
)

ATM_LIMITS = {
    "blue account": 500,
    "green account": 600,
    "light blue account": 400,
    "green fee-free account": 500,
    "evergreen account": 750,
    "bluest account": 1500,
    "dark green account": 300,
    "gold years account": 600,
    "purple account": 1000,
}


class DebitCardServiceTools(DebitCardTools):
    """What is done with a debit card that is in use."""

    official = "KnowledgeTools"

    @inner("write")
    def close_debit_card_4721(self, card_id: str, reason: str) -> str:
        need_all(LISTED, card_id=card_id, reason=reason)
        one_of(reason.lower(), CLOSING_REASONS, "reason")
        reason = reason.lower()
        card = self._card(card_id)
        before = card.get("status")
        need(
            before in ("ACTIVE", "PENDING"),
            f"Error: Debit card '{card_id}' cannot be closed. Current status: {before}. "
            "Only ACTIVE or PENDING cards can be closed.",
        )
        card.update(status="CLOSED", closed_date=TODAY, closure_reason=reason)
        lines = [
            "Debit Card Closed Successfully",
            f"Card ID: {card_id}",
            f"Previous Status: {before}",
            "New Status: CLOSED",
            f"Closure Reason: {titled(reason)}",
            f"Closure Date: {TODAY}",
            "",
        ]
        if reason in ("lost", "stolen", "fraud_suspected"):
            lines.append("IMPORTANT: This card has been immediately deactivated for security.")
            lines.append("Any pending transactions may still be processed.")
        if reason == "fraud_suspected":
            lines.append(
                "Please advise the customer to review recent transactions and file disputes for "
                "any unauthorized charges."
            )
            lines.append("Also recommend changing their online banking password.")
        lines += [
            "",
            "Note: This card cannot be reactivated. If the customer needs a new card, they can "
            "order one through the standard ordering process.",
            "Any recurring payments linked to this card will need to be updated with new payment "
            "information.",
        ]
        return "\n".join(lines)

    @inner("write")
    def freeze_debit_card_3892(self, card_id: str) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        card = self._card_with("ACTIVE", card_id, "FROZEN", "frozen")
        card.update(status="FROZEN", frozen_date=TODAY)
        return (
            "Debit Card Frozen Successfully\n"
            f"Card ID: {card_id}\n"
            "Status: FROZEN\n"
            f"Frozen Date: {TODAY}\n\n"
            "While frozen:\n"
            "- All new purchase transactions will be declined\n"
            "- Recurring payments and subscriptions will be declined\n"
            "- Pending transactions already authorized may still process\n\n"
            "To unfreeze, the customer can call customer service or use the mobile app.\n"
            "If the card is confirmed lost or stolen, recommend closing the card permanently "
            "instead."
        )

    def _card_with(self, status: str, card_id: str, after: str, done: str) -> Any:
        """A card of this status, which is about to get another."""
        card = self._card(card_id)
        before = card.get("status")
        need(before != after, f"Error: Debit card '{card_id}' is already {after.lower()}.")
        need(
            before == status,
            f"Error: Debit card '{card_id}' cannot be {done}. Current status: {before}. "
            f"Only {status} cards can be {done}.",
        )
        return card

    @inner("write")
    def unfreeze_debit_card_3893(self, card_id: str) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        card = self._card_with("FROZEN", card_id, "ACTIVE", "unfrozen")
        self._linked_account_open(card, "Card cannot be unfrozen.")
        card.update(status="ACTIVE", unfrozen_date=TODAY)
        return (
            "Debit Card Unfrozen Successfully\n"
            f"Card ID: {card_id}\n"
            "Status: ACTIVE\n"
            f"Unfrozen Date: {TODAY}\n\n"
            "The card is now active and ready to use immediately.\n"
            "All transactions will process normally."
        )

    @inner("write")
    def clear_debit_card_fraud_alert_4892(self, card_id: str, reason: str) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        need(reason, "Error: Missing required parameter: reason.")
        reasons = ("customer_verified", "velocity_clear")
        invalid = f"Error: Invalid reason '{reason}'. Must be one of: {', '.join(reasons)}"
        need(reason in reasons, invalid)
        card = self._card(card_id)
        lacking = f"Error: Debit card '{card_id}' does not have an active"
        if reason == "velocity_clear":
            need(card.get("velocity_blocked", False), f"{lacking} velocity block.")
            card.update(velocity_blocked=False, velocity_cleared_date=TODAY)
            return (
                "Velocity Block Cleared Successfully\n"
                f"Card ID: {card_id}\n"
                f"Cleared Date: {TODAY}\n\n"
                "The card is now unblocked and ready for normal use.\n"
                "The velocity monitoring will continue - if the same unusual patterns recur,\n"
                "the card may be blocked again automatically."
            )
        need(card.get("fraud_alert_active", False), f"{lacking} fraud alert.")
        need(
            card.get("alert_source") != "bank_initiated",
            "Error: BANK_INITIATED_ALERT - This fraud alert was initiated by the bank's fraud "
            "detection system and cannot be cleared by customer service agents. Please transfer "
            "the customer to the security team using transfer_to_human_agents.",
        )
        card.update(fraud_alert_active=False, alert_source=None, fraud_alert_cleared_date=TODAY)
        return (
            "Fraud Alert Cleared Successfully\n"
            f"Card ID: {card_id}\n"
            f"Cleared Date: {TODAY}\n\n"
            "The fraud alert has been removed from the card.\n"
            "All transactions will process normally.\n\n"
            "Remind the customer to review recent transactions and report any unauthorized charges."
        )

    @inner("write")
    def reset_debit_card_pin_6284(self, **given: str) -> str:
        need_all(LISTED, **given)
        card_id, last_4_digits, new_pin = given.values()
        four_digits(last_4_digits, "Last 4 digits")
        check_pin(new_pin)
        card = self._card(card_id)
        check_digits(card, last_4_digits)
        need(
            card.get("status") == "ACTIVE",
            f"Error: Cannot reset PIN. Card status is {card.get('status')}. "
            "Only ACTIVE cards can have their PIN reset.",
        )
        card.update(pin_last_changed=TODAY, pin_locked=False, pin_attempts_remaining=3)
        return _pin_text("Reset", card_id, "Your card has been unlocked and is ready to use.\n")

    @inner("write")
    def change_debit_card_pin_6285(self, **given: str) -> str:
        need_all(LISTED, **given)
        card_id, current_pin, new_pin = given.values()
        four_digits(current_pin, "Current PIN")
        check_pin(new_pin)
        need(current_pin != new_pin, "Error: New PIN must be different from current PIN.")
        card = self._card(card_id)
        need(
            card.get("status") == "ACTIVE",
            f"Error: Cannot change PIN. Card status is {card.get('status')}. "
            "Only ACTIVE cards can have their PIN changed.",
        )
        card["pin_last_changed"] = TODAY
        return _pin_text("Changed", card_id)

    @inner("read")
    def get_debit_cards_by_account_id_7823(self, account_id: str) -> str:
        need(account_id, "Error: Missing required parameter 'account_id'.")
        account = self._found("accounts", account_id, "Account")
        need(
            account.get("class", "").lower() in ("checking", "business_checking"),
            f"Error: Account '{account_id}' is not a checking account. "
            "Debit cards are only available for checking accounts.",
        )
        cards = [
            _shown_card(card_id, card)
            for card_id, card in self.table("debit_cards").items()
            if card.get("account_id") == account_id
        ]
        need(cards, f"No debit cards found for account '{account_id}'.")
        cards.sort(key=lambda card: card.get("date_issued") or "", reverse=True)
        return json.dumps(cards, indent=2)

    @inner("write")
    def request_temporary_debit_card_limit_increase_8374(
        self, card_id: str, limit_type: str, new_limit: int
    ) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        need(limit_type, "Error: Missing required parameter: limit_type.")
        need(
            limit_type in ("atm", "purchase"),
            f"Error: Invalid limit_type '{limit_type}'. Must be 'atm' or 'purchase'.",
        )
        need(new_limit is not None, "Error: Missing required parameter: new_limit.")
        refusal = "Error: new_limit must be an integer, got '{}'."
        value = number(new_limit, refusal.format(new_limit))
        need(value.is_integer(), refusal.format(value))
        wanted = int(value)
        need(wanted > 0, "Error: new_limit must be a positive amount.")
        card = self._card(card_id)
        need(
            card.get("status") == "ACTIVE",
            f"Error: Debit card '{card_id}' is not active. Current status: {card.get('status')}. "
            "Only ACTIVE cards can have limit increases.",
        )
        account = self._account_in_good_standing(card_id, card)
        name = "Daily ATM Withdrawal Limit" if limit_type == "atm" else "Daily Purchase Limit"
        limit = self._current_limit(card, account, limit_type, name)
        most = int(limit * 1.5)
        need(
            wanted <= most,
            f"Error: Requested limit ${wanted} exceeds the maximum allowed temporary increase. "
            f"Maximum temporary limit is ${most} (150% of current ${limit} limit).",
        )
        need(
            wanted > limit,
            f"Error: Requested limit ${wanted} is not higher than the current limit of ${limit}.",
        )
        card[f"daily_{limit_type}_limit"] = wanted
        card[f"temporary_{limit_type}_limit_increase"] = True
        card[f"original_{limit_type}_limit"] = limit
        card[f"temporary_{limit_type}_limit_expires"] = TODAY
        return (
            f"Temporary {name} Increase Granted Successfully\n"
            f"Card ID: {card_id}\n"
            f"Previous Limit: ${limit}\n"
            f"New Temporary Limit: ${wanted}\n"
            f"Increase Amount: ${wanted - limit}\n\n"
            "Important Information:\n"
            "- This temporary increase expires in 24 hours\n"
            f"- After expiration, the limit will revert to ${limit}\n"
            "- Only one temporary increase is allowed per 24-hour period\n\n"
            "Note: If the customer is at a third-party (non-Rho-Bank) ATM, that ATM may have its "
            "own\nper-transaction or daily limits that Rho-Bank cannot override. The customer may "
            "need to\nuse a Rho-Bank ATM or make multiple smaller withdrawals at third-party ATMs."
        )

    def _account_in_good_standing(self, card_id: str, card: dict[str, Any]) -> Any:
        account_id = str(card.get("account_id") or "")
        accounts = self.table("accounts")
        need(
            account_id and account_id in accounts,
            f"Error: Could not find linked account for debit card '{card_id}'.",
        )
        account = accounts[account_id]
        need(
            account.get("status") == "OPEN",
            f"Error: The linked account '{account_id}' is not in good standing. "
            f"Account status: {account.get('status')}.",
        )
        age = days_since(account.get("date_opened") or "")
        need(
            age is None or age >= 60,
            "Error: Account must be at least 60 days old for a temporary limit increase. "
            f"Account age: {age} days.",
        )
        return account

    @staticmethod
    def _current_limit(
        card: dict[str, Any], account: dict[str, Any], limit_type: str, name: str
    ) -> Any:
        limit = card.get(f"daily_{limit_type}_limit")
        if limit is None and limit_type == "atm":
            level = account.get("level", "").lower()
            need(
                "light green" not in level,
                "Error: Light Green Account (teen checking) cards have policy-based limits that "
                "cannot be modified. The daily ATM withdrawal limit of $150 is fixed by account "
                "policy for safety reasons. The customer may request the parent/guardian to "
                "withdraw cash from their own account if needed.",
            )
            limit = ATM_LIMITS.get(level)
            need(
                limit is not None,
                "Error: Could not determine the default ATM limit for account type "
                f"'{account.get('level')}'. Please verify the account type.",
            )
        need(
            limit is not None,
            f"Error: The card does not have a {name.lower()} configured. This may be a restricted "
            "account type where limits are set by account policy and cannot be modified.",
        )
        return limit


def _pin_text(verb: str, card_id: str, extra: str = "") -> str:
    return (
        f"Debit Card PIN {verb} Successfully\n"
        f"Card ID: {card_id}\n"
        f"PIN Changed: {TODAY}\n\n"
        f"The new PIN is effective immediately.\n{extra}"
        "Customer can use the new PIN for ATM withdrawals and point-of-sale transactions.\n\n"
        "Security reminder: Never share your PIN with anyone."
    )


def _shown_card(card_id: str, card: dict[str, Any]) -> dict[str, Any]:
    """A card with the field names the listing uses; renamed fields go to the end."""
    shown = {"card_id": card_id, **card}
    if "last_4_digits" in shown and "card_number_last_4" not in shown:
        shown["card_number_last_4"] = shown.pop("last_4_digits")
    for old in ("issue_date", "created_date"):
        if old in shown and "date_issued" not in shown:
            shown["date_issued"] = shown.pop(old)
    return shown
