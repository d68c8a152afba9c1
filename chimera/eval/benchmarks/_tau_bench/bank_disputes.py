"""Disputed transactions at tau2-bench's bank; agents must unlock these tools."""

from __future__ import annotations

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    Bank,
    dispute_id,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.benchmarks._tau_bench.kernel import tool

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
DISPUTE_ACTIONS = ("keep_active", "freeze_pending_investigation", "close_and_reissue")


class DisputeTools(Bank):
    official = "KnowledgeTools"

    @tool("write", discoverable=True)
    def file_credit_card_transaction_dispute_4829(
        self,
        transaction_id: str,
        card_action: str,
        card_last_4_digits: str,
        full_name: str,
        user_id: str,
        phone: str,
        email: str,
        address: str,
        contacted_merchant: bool,
        purchase_date: str,
        issue_noticed_date: str,
        dispute_reason: str,
        resolution_requested: str,
        eligible_for_provisional_credit: bool,
        partial_refund_amount: float | None = None,
    ) -> str:
        need(transaction_id and user_id, "Error: Missing required parameters.")
        one_of(card_action, ("keep_active", "cancel_and_reissue"), "card_action")
        one_of(dispute_reason, DISPUTE_REASONS, "dispute_reason")
        one_of(resolution_requested, ("full_refund", "partial_refund"), "resolution_requested")
        need(
            resolution_requested != "partial_refund" or partial_refund_amount is not None,
            "Error: partial_refund_amount is required when resolution_requested is "
            "'partial_refund'.",
        )
        key = dispute_id(user_id, transaction_id)
        record = {
            "dispute_id": key,
            "transaction_id": transaction_id,
            "user_id": user_id,
            "card_action": card_action,
            "card_last_4_digits": card_last_4_digits,
            "full_name": full_name,
            "phone": phone,
            "email": email,
            "address": address,
            "contacted_merchant": contacted_merchant,
            "purchase_date": purchase_date,
            "issue_noticed_date": issue_noticed_date,
            "dispute_reason": dispute_reason,
            "resolution_requested": resolution_requested,
            "partial_refund_amount": partial_refund_amount,
            "eligible_for_provisional_credit": eligible_for_provisional_credit,
            "provisional_credit_given": eligible_for_provisional_credit,
            "submitted_at": TODAY,
            "status": "SUBMITTED",
        }
        need(
            self._add("transaction_disputes", key, record),
            "Error: Dispute may have already been filed for this transaction.",
        )
        lines = [
            "Credit card transaction dispute filed successfully. A case has been opened and "
            "will be "
            "reviewed within 10 business days.",
            "",
            "Executed: file_credit_card_transaction_dispute_4829",
            f"Dispute ID: {key}",
            f"Transaction: {transaction_id}",
            f"Reason: {titled(dispute_reason)}",
            f"Resolution Requested: {titled(resolution_requested)}",
        ]
        if partial_refund_amount:
            lines.append(f"Partial Refund Amount: ${partial_refund_amount:.2f}")
        lines.append(
            "Provisional Credit: ELIGIBLE - Credit will be applied within 2 business days."
            if eligible_for_provisional_credit
            else "Provisional Credit: Not eligible at this time."
        )
        return "\n".join(lines)

    @tool("read", discoverable=True)
    def get_user_dispute_history_7291(self, user_id: str) -> str:
        return self._history(
            "get_user_dispute_history_7291",
            "User transaction dispute history retrieved successfully.",
            f"Transaction dispute history for user {user_id}",
            ("transaction_disputes", "user_id", user_id),
            "No transaction disputes found for this user.",
        )

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

    @tool("read", discoverable=True)
    def get_debit_dispute_status_7483(self, user_id: str) -> str:
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
