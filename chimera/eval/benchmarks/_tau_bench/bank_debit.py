"""Debit card tools of tau2-bench's bank that its agents must unlock before use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    Bank,
    digest_id,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.benchmarks._tau_bench.bank_tools import LISTED, inner, need_all

DELIVERY = {
    "STANDARD": "7-10 business days",
    "EXPEDITED": "3-5 business days",
    "RUSH": "1-2 business days",
}
DESIGNS = ("CLASSIC", "PREMIUM", "CUSTOM")
#: Which tool activates a card, by the reason it was issued for.
ACTIVATION_TOOLS = {
    "new_account": "activate_debit_card_8291",
    "first_card": "activate_debit_card_8291",
    "lost": "activate_debit_card_8292",
    "stolen": "activate_debit_card_8292",
    "fraud": "activate_debit_card_8292",
    "expired": "activate_debit_card_8293",
    "damaged": "activate_debit_card_8293",
    "upgrade": "activate_debit_card_8293",
    "bank_reissue": "activate_debit_card_8293",
}
MINIMUM_BALANCE = 25.0


def check_pin(pin: str) -> None:
    need(pin and pin.isdigit() and len(pin) == 4, "Error: PIN must be exactly 4 digits.")
    need(
        pin not in "0123456789" and pin not in "9876543210",
        "Error: PIN cannot be sequential (e.g., 1234). Please choose a more secure PIN.",
    )
    need(
        len(set(pin)) > 1,
        "Error: PIN cannot be all the same digit (e.g., 1111). Please choose a more secure PIN.",
    )


def four_digits(text: str, name: str) -> None:
    need(text.isdigit() and len(text) == 4, f"Error: {name} must be exactly 4 digits.")


def check_digits(card: dict[str, Any], last_4: str) -> None:
    refusal = "Error: Card verification failed. The last 4 digits do not match our records."
    need(card.get("last_4_digits") == last_4, refusal)


class DebitCardTools(Bank):
    official = "KnowledgeTools"

    def _card(self, card_id: str) -> Any:
        return self._found("debit_cards", card_id, "Debit card")

    @inner("write")
    def set_debit_card_recurring_block_7382(self, card_id: str, block_recurring: bool) -> str:
        need(card_id, "Error: Missing required parameter: card_id")
        card = self._card(card_id)
        status = card.get("status", "").upper()
        need(
            status == "ACTIVE",
            f"Error: Cannot update recurring block settings for a card with status '{status}'. "
            "Card must be ACTIVE.",
        )
        card["recurring_blocked"] = block_recurring
        if block_recurring:
            return (
                f"Recurring payments BLOCKED for debit card {card_id}.\n"
                "All recurring/subscription charges will be declined.\n"
                "One-time purchases are not affected.\n"
                "This change takes effect within 24 hours."
            )
        return (
            f"Recurring payments UNBLOCKED for debit card {card_id}.\n"
            "Recurring/subscription charges will now be allowed.\n"
            "This change takes effect within 24 hours."
        )

    # Ordering a card

    @inner("write")
    def order_debit_card_5739(
        self, excess_replacement_fee: float | None = None, **given: Any
    ) -> str:
        delivery = _fee(given["delivery_fee"], "delivery_fee")
        design = _fee(given["design_fee"], "design_fee")
        try:
            excess = float(excess_replacement_fee or 0)
        except (TypeError, ValueError):
            excess = 0
        fees_given = {"delivery_fee": delivery is not None, "design_fee": design is not None}
        need_all(LISTED, **given | fees_given)
        account_id, user_id, *_, address = given.values()
        speed, look = given["delivery_option"].upper(), given["card_design"].upper()
        one_of(speed, tuple(DELIVERY), "delivery_option")
        one_of(look, DESIGNS, "card_design")
        holdings = self._holdings_for_card(account_id, user_id)
        fees = {"Delivery": delivery or 0.0, "Design": design or 0.0, "Excess Replacement": excess}
        total = sum(fees.values())
        need(
            total <= 0 or holdings >= total,
            f"Error: Insufficient funds for fees. Total fees: ${total:.2f}. "
            f"Current balance: ${holdings:.2f}",
        )
        key = f"dcord_{digest_id(f'debit_card_order:{account_id}:{user_id}:{speed}', 12)}"
        record = {
            "order_id": key,
            "account_id": account_id,
            "user_id": user_id,
            "delivery_option": speed,
            "card_design": look,
            "shipping_address": address,
            "delivery_fee": delivery,
            "design_fee": design,
            "excess_replacement_fee": excess,
            "total_fee": total,
            "order_date": TODAY,
            "expected_delivery": DELIVERY[speed],
            "status": "PENDING",
        }
        refusal = "Error: Failed to create debit card order. Order may already exist."
        need(self._add("debit_card_orders", key, record), refusal)
        charged = "Total Fees: $0 (No additional charges)"
        if total > 0:
            self._charge_card_fees(account_id, key, fees, holdings, total)
            charged = (
                f"Total Fees: ${total:.2f} ({', '.join(_shown_fees(fees, ': '))}) - CHARGED to "
                f"account {account_id}\nNew Account Balance: ${holdings - total:.2f}"
            )
        return (
            "Debit Card Order Confirmed\n"
            f"Order ID: {key}\n"
            f"Card ID: {self._issue_card(account_id, user_id, look)}\n"
            f"Linked Account: {account_id}\n"
            f"Delivery Option: {speed}\n"
            f"Card Design: {look}\n"
            f"Shipping Address: {address}\n"
            f"Expected Delivery: {DELIVERY[speed]}\n\n"
            "Note: Card will arrive with status PENDING. Customer must call to activate after "
            f"receiving the card.\n{charged}"
        )

    def _holdings_for_card(self, account_id: str, user_id: str) -> float:
        """What is on an account that may have a (first or next) debit card."""
        account = self._found("accounts", account_id, "Account")
        need(
            account.get("class") == "checking",
            "Error: Debit cards can only be ordered for checking accounts. "
            f"Account '{account_id}' is a {account.get('class')} account.",
        )
        need(
            account.get("status") == "OPEN",
            f"Error: Account must be OPEN. Account '{account_id}' has status: "
            f"{account.get('status')}",
        )
        need(
            account.get("user_id") == user_id,
            f"Error: Account '{account_id}' does not belong to user '{user_id}'.",
        )
        try:
            holdings = float(str(account.get("current_holdings", "0")).replace(",", ""))
        except ValueError:
            holdings = 0.0
        need(
            holdings >= MINIMUM_BALANCE,
            f"Error: Account must have a minimum balance of $25. Current balance: ${holdings:.2f}",
        )
        need(
            not self._of_account("debit_card_orders", account_id, "PENDING"),
            f"Error: There is already a pending debit card order for account '{account_id}'.",
        )
        need(
            not self._of_account("debit_cards", account_id, "ACTIVE"),
            f"Error: Account '{account_id}' already has an active debit card. "
            "Maximum 1 active card per checking account.",
        )
        return holdings

    def _of_account(self, table: str, account_id: str | None, status: str) -> dict[str, Any]:
        return {
            key: record
            for key, record in self.table(table).items()
            if record.get("account_id") == account_id and record.get("status") == status
        }

    def _charge_card_fees(
        self, account_id: str, order_id: str, fees: dict[str, float], holdings: float, total: float
    ) -> None:
        self.table("accounts")[account_id]["current_holdings"] = f"{holdings - total:.2f}"
        key = f"btxn_dcfee_{order_id[-8:]}"
        record = {
            "transaction_id": key,
            "account_id": account_id,
            "date": TODAY,
            "description": f"DEBIT CARD ORDER FEE - {', '.join(_shown_fees(fees, ' '))}",
            "amount": -total,
            "type": "debit_card_fee",
            "status": "posted",
        }
        self._add("bank_account_transaction_history", key, record)

    def _issue_card(self, account_id: str, user_id: str, design: str) -> str:
        card_id = f"dbc_{digest_id(f'debit_card:{account_id}:{user_id}:{TODAY}', 12)}"
        owner = self.table("users").get(user_id, {})
        record = {
            "card_id": card_id,
            "account_id": account_id,
            "user_id": user_id,
            "cardholder_name": owner.get("name", "CARDHOLDER").upper(),
            "last_4_digits": _digits(digest_id(f"card_details:{card_id}:last4", 8), 4),
            "cvv": _digits(digest_id(f"card_details:{card_id}:cvv", 6), 3),
            "status": "PENDING",
            "issue_date": TODAY,
            "expiration_date": "11/30/2029",
            "card_design": design,
            "issue_reason": self._issue_reason(account_id),
        }
        self._add("debit_cards", card_id, record)
        return card_id

    def _issue_reason(self, account_id: str) -> str:
        """Why a card is issued, from the cards the account has had."""
        for closed in self._of_account("debit_cards", account_id, "CLOSED").values():
            reason: str = closed.get("closure_reason", "first_card")
            reason = "fraud" if reason == "fraud_suspected" else reason
            return reason if reason in ("lost", "stolen", "fraud") else "first_card"
        cards = self.table("debit_cards").values()
        had_one = any(card.get("account_id") == account_id for card in cards)
        return "first_card" if had_one else "new_account"

    # Activating a card

    def _activated(self, tool: str, given: dict[str, str]) -> Any:
        """The card after every check, now active."""
        need_all(LISTED, **given)
        card_id, last_4, _, cvv, pin = given.values()
        check_pin(pin)
        need(cvv.isdigit() and len(cvv) == 3, "Error: CVV must be exactly 3 digits.")
        four_digits(last_4, "Last 4 digits")
        card = self._card(card_id)
        reason = card.get("issue_reason", "new_account")
        right = ACTIVATION_TOOLS.get(reason, "unknown")
        need(
            right == tool,
            f"Error: Wrong activation tool. This card has issue_reason='{reason}'. "
            f"Please use {right} instead of {tool}.",
        )
        status = card.get("status")
        need(status != "ACTIVE", f"Error: Debit card '{card_id}' is already active.")
        need(
            status == "PENDING",
            f"Error: Debit card '{card_id}' cannot be activated. Current status: {status}. "
            "Only PENDING cards can be activated.",
        )
        check_digits(card, last_4)
        self._linked_account_open(card, "Card cannot be activated.")
        card.update(status="ACTIVE", activated_date=TODAY)
        return card

    def _linked_account_open(self, card: dict[str, Any], consequence: str) -> None:
        account_id = card.get("account_id")
        account = self.table("accounts").get(account_id) if account_id else None
        need(
            account is None or account.get("status") == "OPEN",
            f"Error: The linked checking account '{account_id}' is no longer open. {consequence}",
        )

    def _retire_others(
        self,
        card: dict[str, Any],
        reason: str,
        status: str = "DEACTIVATED",
        date: str = "deactivated_date",
    ) -> str:
        """Take the account's other active cards out of use; their ids, joined."""
        active = self._of_account("debit_cards", card.get("account_id"), "ACTIVE")
        others = {card_id: other for card_id, other in active.items() if other is not card}
        for other in others.values():
            other.update({"status": status, date: TODAY, "deactivation_reason": reason})
        return ", ".join(others)

    @inner("write")
    def activate_debit_card_8291(self, **given: str) -> str:
        card = self._activated("activate_debit_card_8291", given)
        retired = self._retire_others(card, "New card activated")
        lines = [
            *_activation("New Debit Card", given),
            "Your card is now ready to use at any ATM or point of sale terminal.",
            "For security, please sign the back of your card.",
        ]
        if retired:
            lines.append(f"\nNote: Previous card(s) have been deactivated: {retired}")
        return "\n".join(lines)

    @inner("write")
    def activate_debit_card_8292(self, **given: str) -> str:
        card = self._activated("activate_debit_card_8292", given)
        reason = card.get("issue_reason", "lost")
        retired = self._retire_others(card, f"Replacement card activated ({reason})")
        lines = [
            *_activation("Replacement Debit Card", given, f"Replacement Reason: {titled(reason)}"),
            "Your replacement card is now ready to use.",
            "",
            "IMPORTANT SECURITY REMINDERS:",
            "- Please review your recent transactions for any unauthorized charges",
            "- Report any suspicious activity immediately",
        ]
        if reason == "fraud":
            lines.append(
                "- Since fraud was suspected, we recommend changing your online banking password"
            )
        if retired:
            lines.append(f"\nPrevious card(s) have been deactivated for security: {retired}")
        return "\n".join(lines)

    @inner("write")
    def activate_debit_card_8293(self, **given: str) -> str:
        card = self._activated("activate_debit_card_8293", given)
        reason = card.get("issue_reason", "expired")
        retired = self._retire_others(
            card, f"Reissued card activated ({reason})", "GRACE_PERIOD", "grace_period_ends"
        )
        lines = [
            *_activation("Reissued Debit Card", given, f"Reissue Reason: {titled(reason)}"),
            "Your reissued card is now ready to use.",
        ]
        if retired:
            lines.append(
                f"\nNote: Your previous card(s) ({retired}) will remain active for 24 hours as a "
                "grace period."
            )
            lines.append("After 24 hours, the old card(s) will be automatically deactivated.")
        if reason in ("expired", "bank_reissue"):
            lines.append(
                "\nReminder: If your card number changed, please update any recurring payments "
                "with your new card details."
            )
        return "\n".join(lines)


def _fee(value: Any, name: str) -> float | None:
    return None if value is None else number(value, f"Error: {name} must be a number.")


def _shown_fees(fees: dict[str, float], separator: str) -> Sequence[str]:
    return [
        f"{name}{separator}${fee:.0f}"
        if name == "Excess Replacement"
        else f"{name}{separator}${fee}"
        for name, fee in fees.items()
        if fee > 0
    ]


def _digits(text: str, count: int) -> str:
    return "".join(char for char in text if char.isdigit())[:count].zfill(count)


def _activation(title: str, given: dict[str, str], *reason: str) -> Sequence[str]:
    head = (f"{title} Activation Successful", f"Card ID: {given['card_id']}")
    return [*head, *reason, "Status: ACTIVE", f"Activation Date: {TODAY}", ""]
