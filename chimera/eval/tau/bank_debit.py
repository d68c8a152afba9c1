"""Debit card tools of tau2-bench's bank that its agents must unlock before use."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from chimera.eval.tau.bank import (
    TODAY,
    Bank,
    days_since,
    digest_id,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.tau.bank_credit import dispute_id
from chimera.eval.tau.kernel import tool

DISPUTE_CATEGORIES = (
    "unauthorized_transaction",
    "atm_cash_discrepancy",
    "atm_deposit_not_credited",
    "duplicate_charge",
    "incorrect_amount",
    "goods_services_not_received",
    "recurring_charge_after_cancellation",
    "card_present_fraud",
    "card_not_present_fraud",
)
FRAUD_CATEGORIES = ("unauthorized_transaction", "card_present_fraud", "card_not_present_fraud")
TRANSACTION_TYPES = (
    "pin_purchase",
    "signature_purchase",
    "online_purchase",
    "atm_withdrawal",
    "atm_deposit",
    "recurring_payment",
    "person_to_person",
)
DISPUTE_ACTIONS = ("keep_active", "freeze_pending_investigation", "close_and_reissue")
DELIVERY = {
    "STANDARD": "7-10 business days",
    "EXPEDITED": "3-5 business days",
    "RUSH": "1-2 business days",
}
DESIGNS = ("CLASSIC", "PREMIUM", "CUSTOM")
CLOSING_REASONS = (
    "lost",
    "stolen",
    "fraud_suspected",
    "damaged",
    "no_longer_needed",
    "account_closing",
)
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
MINIMUM_BALANCE = 25.0


def _check_pin(pin: str) -> None:
    need(pin and pin.isdigit() and len(pin) == 4, "Error: PIN must be exactly 4 digits.")
    need(
        pin not in "0123456789" and pin not in "9876543210",
        "Error: PIN cannot be sequential (e.g., 1234). Please choose a more secure PIN.",
    )
    need(
        len(set(pin)) > 1,
        "Error: PIN cannot be all the same digit (e.g., 1111). Please choose a more secure PIN.",
    )


def _four_digits(text: str, name: str) -> None:
    need(text.isdigit() and len(text) == 4, f"Error: {name} must be exactly 4 digits.")


class DebitCardTools(Bank):
    official = "KnowledgeTools"

    def _card(self, card_id: str) -> dict[str, Any]:
        cards = self.table("debit_cards")
        need(card_id in cards, f"Error: Debit card '{card_id}' not found.")
        card: dict[str, Any] = cards[card_id]
        return card

    @tool("write", discoverable=True)
    def file_debit_card_transaction_dispute_6281(
        self,
        transaction_id: str,
        account_id: str,
        card_id: str,
        user_id: str,
        dispute_category: str,
        transaction_date: str,
        discovery_date: str,
        disputed_amount: float,
        transaction_type: str,
        card_in_possession: bool,
        pin_compromised: str,
        contacted_merchant: bool,
        police_report_filed: bool,
        written_statement_provided: bool,
        provisional_credit_eligible: bool,
        customer_max_liability_amount: float,
        card_action: str,
    ) -> str:
        texts = (transaction_id, account_id, card_id, user_id, dispute_category, transaction_date)
        others = (discovery_date, disputed_amount, transaction_type, pin_compromised, card_action)
        need(all(texts) and all(others), "Error: Missing required parameters.")
        need(
            customer_max_liability_amount is not None,
            "Error: customer_max_liability_amount is required.",
        )
        flags = (card_in_possession, contacted_merchant, police_report_filed)
        need(
            None not in (*flags, written_statement_provided),
            "Error: card_in_possession, contacted_merchant, police_report_filed, and "
            "written_statement_provided are required boolean fields.",
        )
        one_of(dispute_category, DISPUTE_CATEGORIES, "dispute_category")
        one_of(transaction_type, TRANSACTION_TYPES, "transaction_type")
        one_of(pin_compromised, ("yes_shared", "yes_observed", "no", "unknown"), "pin_compromised")
        one_of(card_action, DISPUTE_ACTIONS, "card_action")
        refusal = f"Error: Invalid disputed_amount '{disputed_amount}'. Must be a number."
        amount = number(disputed_amount, refusal)
        need(amount > 0, "Error: disputed_amount must be a positive number.")
        key = dispute_id(user_id, transaction_id)
        fraud, shared = dispute_category in FRAUD_CATEGORIES, pin_compromised == "yes_shared"
        record = {
            "dispute_id": key,
            "transaction_id": transaction_id,
            "account_id": account_id,
            "card_id": card_id,
            "user_id": user_id,
            "dispute_category": dispute_category,
            "transaction_date": transaction_date,
            "discovery_date": discovery_date,
            "disputed_amount": amount,
            "transaction_type": transaction_type,
            "card_in_possession": card_in_possession,
            "pin_compromised": pin_compromised,
            "contacted_merchant": contacted_merchant,
            "police_report_filed": police_report_filed,
            "written_statement_provided": written_statement_provided,
            "provisional_credit_eligible": provisional_credit_eligible,
            "provisional_credit_issued": provisional_credit_eligible,
            "provisional_credit_amount": amount if provisional_credit_eligible else None,
            "customer_max_liability_amount": customer_max_liability_amount,
            "card_action": card_action,
            "is_fraud_category": fraud,
            "pin_shared_voluntarily": shared,
            "submitted_at": TODAY,
            "status": "OPEN",
        }
        need(
            self._add("debit_card_disputes", key, record),
            "Error: Dispute may have already been filed for this transaction.",
        )
        lines = [
            f"Dispute ID: {key}",
            f"Transaction: {transaction_id}",
            f"Account: {account_id}",
            f"Category: {titled(dispute_category)}",
            f"Disputed Amount: ${amount:.2f}",
            f"Card Action: {titled(card_action)}",
            f"Provisional Credit: ISSUED - ${amount:.2f} credited within 10 business days per "
            "Regulation E."
            if provisional_credit_eligible
            else "Provisional Credit: Not eligible - see Debit Card Provisional Credit Guidelines "
            "for details.",
        ]
        if shared:
            lines.append(
                "WARNING: Customer indicated PIN was shared voluntarily. This may affect liability "
                "determination."
            )
        if fraud and not police_report_filed and amount > 500:
            lines.append(
                "RECOMMENDATION: For fraud disputes over $500, filing a police report is "
                "recommended."
            )
        return "\n".join(lines)

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

    @tool("read", discoverable=True)
    def get_debit_dispute_status_7483(self, user_id: str) -> str:
        need(user_id, "Error: Missing required parameter: user_id")
        return self._history(
            "get_debit_dispute_status_7483",
            "Debit card dispute history retrieved successfully.",
            f"Debit card dispute history for user {user_id}",
            ("debit_card_disputes", "user_id", user_id),
            "No debit card disputes found for this user.",
        )

    @tool("read", discoverable=True)
    def get_atm_deposit_images_8473(self, transaction_id: str) -> str:
        need(transaction_id, "Error: Missing required parameter: transaction_id")
        history = self.table("bank_account_transaction_history")
        need(transaction_id in history, f"Error: Transaction '{transaction_id}' not found.")
        entry = history[transaction_id]
        need(
            entry.get("type") == "atm_deposit",
            f"Error: Transaction '{transaction_id}' is not an ATM deposit. "
            "This tool only works for ATM deposit transactions.",
        )
        description = entry.get("description", "")
        need(
            "RHO-BANK" in description.upper() or "RHOBANK" in description.upper(),
            f"Error: Transaction '{transaction_id}' is from a third-party ATM. Deposit images are "
            "only available for Rho-Bank ATM deposits. For third-party ATM disputes, a chargeback "
            "request must be submitted to the ATM network.",
        )
        # The transactions that have images officially stand in no published task or database.
        return (
            "ATM Deposit Image Retrieval Results\n"
            "=====================================\n"
            f"Transaction ID: {transaction_id}\n"
            f"ATM: {description}\n"
            f"Deposit Date: {entry.get('date', 'Unknown')}\n"
            f"Amount Recorded: ${abs(entry.get('amount', 0)):.2f}\n\n"
            "--- IMAGE STATUS ---\n"
            "Status: IMAGES NOT AVAILABLE\n"
            "Reason: Deposit images for this transaction have either expired (older than 90 days) "
            "or were not captured by the ATM system.\n\n"
            "For deposits without available images, the dispute will proceed based on customer "
            "statement and ATM journal records only. Investigation timeline may be extended.\n"
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
        _check_pin(pin)
        need(cvv.isdigit() and len(cvv) == 3, "Error: CVV must be exactly 3 digits.")
        _four_digits(last_4, "Last 4 digits")
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


class DebitCardServiceTools(DebitCardTools):
    """What is done with a debit card that is in use."""

    official = "KnowledgeTools"

    @tool("write", discoverable=True)
    def close_debit_card_4721(self, card_id: str, reason: str) -> str:
        need(
            card_id and reason,
            "Error: Missing required parameters. Required: card_id, reason.",
        )
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
                "Please advise the customer to review recent transactions and file disputes for any "
                "unauthorized charges."
            )
            lines.append("Also recommend changing their online banking password.")
        lines += [
            "",
            "Note: This card cannot be reactivated. If the customer needs a new card, they can order "
            "one through the standard ordering process.",
            "Any recurring payments linked to this card will need to be updated with new payment "
            "information.",
        ]
        return "\n".join(lines)

    @tool("write", discoverable=True)
    def freeze_debit_card_3892(self, card_id: str) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        card = self._card(card_id)
        status = card.get("status")
        need(status != "FROZEN", f"Error: Debit card '{card_id}' is already frozen.")
        need(
            status == "ACTIVE",
            f"Error: Debit card '{card_id}' cannot be frozen. Current status: {status}. "
            "Only ACTIVE cards can be frozen.",
        )
        card.update(status="FROZEN", frozen_date=TODAY)
        return "\n".join(
            [
                "Debit Card Frozen Successfully",
                f"Card ID: {card_id}",
                "Status: FROZEN",
                f"Frozen Date: {TODAY}",
                "",
                "While frozen:",
                "- All new purchase transactions will be declined",
                "- Recurring payments and subscriptions will be declined",
                "- Pending transactions already authorized may still process",
                "",
                "To unfreeze, the customer can call customer service or use the mobile app.",
                "If the card is confirmed lost or stolen, recommend closing the card permanently "
                "instead.",
            ]
        )

    @tool("write", discoverable=True)
    def unfreeze_debit_card_3893(self, card_id: str) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        card = self._card(card_id)
        status = card.get("status")
        need(status != "ACTIVE", f"Error: Debit card '{card_id}' is already active.")
        need(
            status == "FROZEN",
            f"Error: Debit card '{card_id}' cannot be unfrozen. Current status: {status}. "
            "Only FROZEN cards can be unfrozen.",
        )
        self._linked_account_open(card, "Card cannot be unfrozen.")
        card.update(status="ACTIVE", unfrozen_date=TODAY)
        return "\n".join(
            [
                "Debit Card Unfrozen Successfully",
                f"Card ID: {card_id}",
                "Status: ACTIVE",
                f"Unfrozen Date: {TODAY}",
                "",
                "The card is now active and ready to use immediately.",
                "All transactions will process normally.",
            ]
        )

    @tool("write", discoverable=True)
    def clear_debit_card_fraud_alert_4892(self, card_id: str, reason: str) -> str:
        need(card_id, "Error: Missing required parameter: card_id.")
        need(reason, "Error: Missing required parameter: reason.")
        reasons = ("customer_verified", "velocity_clear")
        need(
            reason in reasons,
            f"Error: Invalid reason '{reason}'. Must be one of: {', '.join(reasons)}",
        )
        card = self._card(card_id)
        if reason == "velocity_clear":
            need(
                card.get("velocity_blocked", False),
                f"Error: Debit card '{card_id}' does not have an active velocity block.",
            )
            card.update(velocity_blocked=False, velocity_cleared_date=TODAY)
            return "\n".join(
                [
                    "Velocity Block Cleared Successfully",
                    f"Card ID: {card_id}",
                    f"Cleared Date: {TODAY}",
                    "",
                    "The card is now unblocked and ready for normal use.",
                    "The velocity monitoring will continue - if the same unusual patterns recur,",
                    "the card may be blocked again automatically.",
                ]
            )
        need(
            card.get("fraud_alert_active", False),
            f"Error: Debit card '{card_id}' does not have an active fraud alert.",
        )
        need(
            card.get("alert_source") != "bank_initiated",
            "Error: BANK_INITIATED_ALERT - This fraud alert was initiated by the bank's fraud "
            "detection system and cannot be cleared by customer service agents. Please transfer the "
            "customer to the security team using transfer_to_human_agents.",
        )
        card.update(fraud_alert_active=False, alert_source=None, fraud_alert_cleared_date=TODAY)
        return "\n".join(
            [
                "Fraud Alert Cleared Successfully",
                f"Card ID: {card_id}",
                f"Cleared Date: {TODAY}",
                "",
                "The fraud alert has been removed from the card.",
                "All transactions will process normally.",
                "",
                "Remind the customer to review recent transactions and report any unauthorized "
                "charges.",
            ]
        )

    @tool("write", discoverable=True)
    def reset_debit_card_pin_6284(self, card_id: str, last_4_digits: str, new_pin: str) -> str:
        need(
            card_id and last_4_digits and new_pin,
            "Error: Missing required parameters. Required: card_id, last_4_digits, new_pin.",
        )
        _four_digits(last_4_digits, "Last 4 digits")
        _check_pin(new_pin)
        card = self._card(card_id)
        need(
            card.get("last_4_digits") == last_4_digits,
            "Error: Card verification failed. The last 4 digits do not match our records.",
        )
        need(
            card.get("status") == "ACTIVE",
            f"Error: Cannot reset PIN. Card status is {card.get('status')}. "
            "Only ACTIVE cards can have their PIN reset.",
        )
        card.update(pin_last_changed=TODAY, pin_locked=False, pin_attempts_remaining=3)
        return _pin_text("Reset", card_id, ["Your card has been unlocked and is ready to use."])

    @tool("write", discoverable=True)
    def change_debit_card_pin_6285(self, card_id: str, current_pin: str, new_pin: str) -> str:
        need(
            card_id and current_pin and new_pin,
            "Error: Missing required parameters. Required: card_id, current_pin, new_pin.",
        )
        _four_digits(current_pin, "Current PIN")
        _check_pin(new_pin)
        need(current_pin != new_pin, "Error: New PIN must be different from current PIN.")
        card = self._card(card_id)
        need(
            card.get("status") == "ACTIVE",
            f"Error: Cannot change PIN. Card status is {card.get('status')}. "
            "Only ACTIVE cards can have their PIN changed.",
        )
        card["pin_last_changed"] = TODAY
        return _pin_text("Changed", card_id, [])

    @tool("read", discoverable=True)
    def get_debit_cards_by_account_id_7823(self, account_id: str) -> str:
        need(account_id, "Error: Missing required parameter 'account_id'.")
        accounts = self.table("accounts")
        need(account_id in accounts, f"Error: Account '{account_id}' not found.")
        need(
            accounts[account_id].get("class", "").lower() in ("checking", "business_checking"),
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

    @tool("write", discoverable=True)
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
        return "\n".join(
            [
                f"Temporary {name} Increase Granted Successfully",
                f"Card ID: {card_id}",
                f"Previous Limit: ${limit}",
                f"New Temporary Limit: ${wanted}",
                f"Increase Amount: ${wanted - limit}",
                "",
                "Important Information:",
                "- This temporary increase expires in 24 hours",
                f"- After expiration, the limit will revert to ${limit}",
                "- Only one temporary increase is allowed per 24-hour period",
                "",
                "Note: If the customer is at a third-party (non-Rho-Bank) ATM, that ATM may have its "
                "own",
                "per-transaction or daily limits that Rho-Bank cannot override. The customer may "
                "need to",
                "use a Rho-Bank ATM or make multiple smaller withdrawals at third-party ATMs.",
            ]
        )

    def _account_in_good_standing(self, card_id: str, card: dict[str, Any]) -> dict[str, Any]:
        account_id = card.get("account_id")
        accounts = self.table("accounts")
        need(
            account_id and account_id in accounts,
            f"Error: Could not find linked account for debit card '{card_id}'.",
        )
        account: dict[str, Any] = accounts[account_id]
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


def _pin_text(verb: str, card_id: str, extra: Sequence[str]) -> str:
    return "\n".join(
        [
            f"Debit Card PIN {verb} Successfully",
            f"Card ID: {card_id}",
            f"PIN Changed: {TODAY}",
            "",
            "The new PIN is effective immediately.",
            *extra,
            "Customer can use the new PIN for ATM withdrawals and point-of-sale transactions.",
            "",
            "Security reminder: Never share your PIN with anyone.",
        ]
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
