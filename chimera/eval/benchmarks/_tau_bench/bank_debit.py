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
from chimera.eval.benchmarks._tau_bench.kernel import tool

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


class DebitCardTools(Bank):
    official = "KnowledgeTools"

    def _card(self, card_id: str) -> dict[str, Any]:
        cards = self.table("debit_cards")
        need(card_id in cards, f"Error: Debit card '{card_id}' not found.")
        card: dict[str, Any] = cards[card_id]
        return card

    @tool("write", discoverable=True)
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

    @tool("write", discoverable=True)
    def order_debit_card_5739(
        self,
        account_id: str,
        user_id: str,
        delivery_option: str,
        delivery_fee: float,
        card_design: str,
        design_fee: float,
        shipping_address: str,
        excess_replacement_fee: float | None = None,
    ) -> str:
        delivery = _fee(delivery_fee, "delivery_fee")
        design = _fee(design_fee, "design_fee")
        try:
            excess = float(excess_replacement_fee or 0)
        except (TypeError, ValueError):
            excess = 0
        texts = (account_id, user_id, delivery_option, card_design, shipping_address)
        need(
            all(texts) and delivery is not None and design is not None,
            "Error: Missing required parameters. Required: account_id, user_id, delivery_option, "
            "delivery_fee, card_design, design_fee, shipping_address.",
        )
        speed, look = delivery_option.upper(), card_design.upper()
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
        seed = f"debit_card_order:{account_id}:{user_id}:{speed}"
        key = f"dcord_{digest_id(seed, 12)}"
        record = {
            "order_id": key,
            "account_id": account_id,
            "user_id": user_id,
            "delivery_option": speed,
            "card_design": look,
            "shipping_address": shipping_address,
            "delivery_fee": delivery,
            "design_fee": design,
            "excess_replacement_fee": excess,
            "total_fee": total,
            "order_date": TODAY,
            "expected_delivery": DELIVERY[speed],
            "status": "PENDING",
        }
        need(
            self._add("debit_card_orders", key, record),
            "Error: Failed to create debit card order. Order may already exist.",
        )
        if total > 0:
            self._charge_card_fees(account_id, key, fees, holdings, total)
        card_id = self._issue_card(account_id, user_id, look)
        lines = [
            "Debit Card Order Confirmed",
            f"Order ID: {key}",
            f"Card ID: {card_id}",
            f"Linked Account: {account_id}",
            f"Delivery Option: {speed}",
            f"Card Design: {look}",
            f"Shipping Address: {shipping_address}",
            f"Expected Delivery: {DELIVERY[speed]}",
            "",
            "Note: Card will arrive with status PENDING. Customer must call to activate after "
            "receiving the card.",
        ]
        if total > 0:
            charged = ", ".join(_shown_fees(fees, ": "))
            lines.append(f"Total Fees: ${total:.2f} ({charged}) - CHARGED to account {account_id}")
            lines.append(f"New Account Balance: ${holdings - total:.2f}")
        else:
            lines.append("Total Fees: $0 (No additional charges)")
        return "\n".join(lines)

    def _holdings_for_card(self, account_id: str, user_id: str) -> float:
        """What is on an account that may have a (first or next) debit card."""
        accounts = self.table("accounts")
        need(account_id in accounts, f"Error: Account '{account_id}' not found.")
        account = accounts[account_id]
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
        pending = any(
            order.get("account_id") == account_id and order.get("status") == "PENDING"
            for order in self.table("debit_card_orders").values()
        )
        need(
            not pending,
            f"Error: There is already a pending debit card order for account '{account_id}'.",
        )
        need(
            not self._active_cards(account_id),
            f"Error: Account '{account_id}' already has an active debit card. "
            "Maximum 1 active card per checking account.",
        )
        return holdings

    def _active_cards(self, account_id: str | None) -> dict[str, dict[str, Any]]:
        return {
            card_id: card
            for card_id, card in self.table("debit_cards").items()
            if card.get("account_id") == account_id and card.get("status") == "ACTIVE"
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
        cards = [
            card
            for card in self.table("debit_cards").values()
            if card.get("account_id") == account_id
        ]
        closed = next((card for card in cards if card.get("status") == "CLOSED"), None)
        if closed is not None:
            reason: str = closed.get("closure_reason", "first_card")
            reason = "fraud" if reason == "fraud_suspected" else reason
            return reason if reason in ("lost", "stolen", "fraud") else "first_card"
        return "first_card" if cards else "new_account"

    # Activating a card

    def _activated(
        self, tool: str, card_id: str, last_4: str, expiration: str, cvv: str, pin: str
    ) -> dict[str, Any]:
        """The card after every check, now active."""
        need(
            card_id and last_4 and expiration and cvv and pin,
            "Error: Missing required parameters. Required: card_id, last_4_digits, "
            "expiration_date, cvv, pin.",
        )
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
        need(
            card.get("last_4_digits") == last_4,
            "Error: Card verification failed. The last 4 digits do not match our records.",
        )
        self._linked_account_open(card, "Card cannot be activated.")
        card["status"] = "ACTIVE"
        card["activated_date"] = TODAY
        return card

    def _linked_account_open(self, card: dict[str, Any], consequence: str) -> None:
        account_id = card.get("account_id")
        account = self.table("accounts").get(account_id) if account_id else None
        need(
            account is None or account.get("status") == "OPEN",
            f"Error: The linked checking account '{account_id}' is no longer open. {consequence}",
        )

    def _retire_others(self, card_id: str, card: dict[str, Any], changes: dict[str, str]) -> str:
        """Take the account's other active cards out of use; their ids, joined."""
        others = self._active_cards(card.get("account_id"))
        others.pop(card_id, None)
        for other in others.values():
            other.update(changes)
        return ", ".join(others)

    @tool("write", discoverable=True)
    def activate_debit_card_8291(
        self, card_id: str, last_4_digits: str, expiration_date: str, cvv: str, pin: str
    ) -> str:
        name = "activate_debit_card_8291"
        card = self._activated(name, card_id, last_4_digits, expiration_date, cvv, pin)
        retired = self._retire_others(
            card_id, card, _deactivated("DEACTIVATED", "New card activated")
        )
        lines = [
            "New Debit Card Activation Successful",
            f"Card ID: {card_id}",
            "Status: ACTIVE",
            f"Activation Date: {TODAY}",
            "",
            "Your card is now ready to use at any ATM or point of sale terminal.",
            "For security, please sign the back of your card.",
        ]
        if retired:
            lines.append(f"\nNote: Previous card(s) have been deactivated: {retired}")
        return "\n".join(lines)

    @tool("write", discoverable=True)
    def activate_debit_card_8292(
        self, card_id: str, last_4_digits: str, expiration_date: str, cvv: str, pin: str
    ) -> str:
        name = "activate_debit_card_8292"
        card = self._activated(name, card_id, last_4_digits, expiration_date, cvv, pin)
        reason = card.get("issue_reason", "lost")
        changes = _deactivated("DEACTIVATED", f"Replacement card activated ({reason})")
        retired = self._retire_others(card_id, card, changes)
        lines = [
            "Replacement Debit Card Activation Successful",
            f"Card ID: {card_id}",
            f"Replacement Reason: {titled(reason)}",
            "Status: ACTIVE",
            f"Activation Date: {TODAY}",
            "",
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

    @tool("write", discoverable=True)
    def activate_debit_card_8293(
        self, card_id: str, last_4_digits: str, expiration_date: str, cvv: str, pin: str
    ) -> str:
        name = "activate_debit_card_8293"
        card = self._activated(name, card_id, last_4_digits, expiration_date, cvv, pin)
        reason = card.get("issue_reason", "expired")
        changes = {
            "status": "GRACE_PERIOD",
            "grace_period_ends": TODAY,
            "deactivation_reason": f"Reissued card activated ({reason})",
        }
        retired = self._retire_others(card_id, card, changes)
        lines = [
            "Reissued Debit Card Activation Successful",
            f"Card ID: {card_id}",
            f"Reissue Reason: {titled(reason)}",
            "Status: ACTIVE",
            f"Activation Date: {TODAY}",
            "",
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


def _deactivated(status: str, reason: str) -> dict[str, str]:
    return {"status": status, "deactivated_date": TODAY, "deactivation_reason": reason}
