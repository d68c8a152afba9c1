"""Disputed transactions at tau2-bench's bank; agents must unlock these tools."""

from __future__ import annotations

from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    Bank,
    dispute_id,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.benchmarks._tau_bench.bank_tools import UNNAMED, inner

DISPUTE_REASONS = (
    "unauthorized_fraudulent_charge",
    "duplicate_charge",
    "incorrect_amount",
    "goods_services_not_received",
    "goods_services_not_as_described",
    "canceled_subscription_still_charging",
    "refund_never_processed",
)
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
DISPUTE_FLAGS = (
    "card_in_possession",
    "contacted_merchant",
    "police_report_filed",
    "written_statement_provided",
)
ELIGIBLE = "eligible_for_provisional_credit"
ALREADY_FILED = "Error: Dispute may have already been filed for this transaction."
DISPUTE_ACTIONS = ("keep_active", "freeze_pending_investigation", "close_and_reissue")


class DisputeTools(Bank):
    official = "KnowledgeTools"

    @inner("write")
    def file_credit_card_transaction_dispute_4829(
        self, partial_refund_amount: float | None = None, **given: Any
    ) -> str:
        need(given["transaction_id"] and given["user_id"], UNNAMED)
        one_of(given["card_action"], ("keep_active", "cancel_and_reissue"), "card_action")
        one_of(given["dispute_reason"], DISPUTE_REASONS, "dispute_reason")
        resolution, eligible = given["resolution_requested"], given.pop(ELIGIBLE)
        one_of(resolution, ("full_refund", "partial_refund"), "resolution_requested")
        need(
            resolution != "partial_refund" or partial_refund_amount is not None,
            "Error: partial_refund_amount is required when resolution_requested is "
            "'partial_refund'.",
        )
        key = dispute_id(given["user_id"], given["transaction_id"])
        record = {
            "dispute_id": key,
            "transaction_id": given["transaction_id"],
            "user_id": given["user_id"],
            **given,
            "partial_refund_amount": partial_refund_amount,
            ELIGIBLE: eligible,
            "provisional_credit_given": eligible,
            "submitted_at": TODAY,
            "status": "SUBMITTED",
        }
        need(self._add("transaction_disputes", key, record), ALREADY_FILED)
        lines = [
            "Credit card transaction dispute filed successfully. A case has been opened and will "
            "be reviewed within 10 business days.",
            "",
            "Executed: file_credit_card_transaction_dispute_4829",
            f"Dispute ID: {key}",
            f"Transaction: {given['transaction_id']}",
            f"Reason: {titled(given['dispute_reason'])}",
            f"Resolution Requested: {titled(resolution)}",
        ]
        if partial_refund_amount:
            lines.append(f"Partial Refund Amount: ${partial_refund_amount:.2f}")
        lines.append(
            "Provisional Credit: ELIGIBLE - Credit will be applied within 2 business days."
            if eligible
            else "Provisional Credit: Not eligible at this time."
        )
        return "\n".join(lines)

    @inner("read")
    def get_user_dispute_history_7291(self, **given: str) -> str:
        return self._history(
            "get_user_dispute_history_7291",
            "User transaction dispute history retrieved successfully.",
            "Transaction dispute history for user {}",
            "transaction_disputes",
            "No transaction disputes found for this user.",
            given,
        )

    @inner("write")
    def file_debit_card_transaction_dispute_6281(self, **given: Any) -> str:
        unchecked = {*DISPUTE_FLAGS, "provisional_credit_eligible", "customer_max_liability_amount"}
        need(all(value for name, value in given.items() if name not in unchecked), UNNAMED)
        liability = given.pop("customer_max_liability_amount")
        card_action = given.pop("card_action")
        need(liability is not None, "Error: customer_max_liability_amount is required.")
        need(
            None not in [given[flag] for flag in DISPUTE_FLAGS],
            "Error: card_in_possession, contacted_merchant, police_report_filed, and "
            "written_statement_provided are required boolean fields.",
        )
        category, pin = given["dispute_category"], given["pin_compromised"]
        one_of(category, DISPUTE_CATEGORIES, "dispute_category")
        one_of(given["transaction_type"], TRANSACTION_TYPES, "transaction_type")
        one_of(pin, ("yes_shared", "yes_observed", "no", "unknown"), "pin_compromised")
        one_of(card_action, DISPUTE_ACTIONS, "card_action")
        refusal = f"Error: Invalid disputed_amount '{given['disputed_amount']}'. Must be a number."
        amount = given["disputed_amount"] = number(given["disputed_amount"], refusal)
        need(amount > 0, "Error: disputed_amount must be a positive number.")
        key = dispute_id(given["user_id"], given["transaction_id"])
        fraud, shared = category in FRAUD_CATEGORIES, pin == "yes_shared"
        eligible = given["provisional_credit_eligible"]
        record = {
            "dispute_id": key,
            **given,
            "provisional_credit_issued": eligible,
            "provisional_credit_amount": amount if eligible else None,
            "customer_max_liability_amount": liability,
            "card_action": card_action,
            "is_fraud_category": fraud,
            "pin_shared_voluntarily": shared,
            "submitted_at": TODAY,
            "status": "OPEN",
        }
        need(self._add("debit_card_disputes", key, record), ALREADY_FILED)
        lines = [
            f"Dispute ID: {key}",
            f"Transaction: {given['transaction_id']}",
            f"Account: {given['account_id']}",
            f"Category: {titled(category)}",
            f"Disputed Amount: ${amount:.2f}",
            f"Card Action: {titled(card_action)}",
            f"Provisional Credit: ISSUED - ${amount:.2f} credited within 10 business days per "
            "Regulation E."
            if eligible
            else "Provisional Credit: Not eligible - see Debit Card Provisional Credit Guidelines "
            "for details.",
        ]
        if shared:
            lines.append(
                "WARNING: Customer indicated PIN was shared voluntarily. This may affect liability "
                "determination."
            )
        if fraud and not given["police_report_filed"] and amount > 500:
            lines.append(
                "RECOMMENDATION: For fraud disputes over $500, filing a police report is "
                "recommended."
            )
        return "\n".join(lines)

    @inner("read")
    def get_debit_dispute_status_7483(self, **given: str) -> str:
        return self._history(
            "get_debit_dispute_status_7483",
            "Debit card dispute history retrieved successfully.",
            "Debit card dispute history for user {}",
            "debit_card_disputes",
            "No debit card disputes found for this user.",
            given,
        )

    @inner("read")
    def get_atm_deposit_images_8473(self, transaction_id: str) -> str:
        need(transaction_id, "Error: Missing required parameter: transaction_id")
        entry = self._found("bank_account_transaction_history", transaction_id, "Transaction")
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
