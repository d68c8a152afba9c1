"""Credit limits at tau2-bench's bank; agents must unlock these tools."""

from __future__ import annotations

from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    Answer,
    bullets,
    digest_id,
    money_or_zero,
    need,
    number,
)
from chimera.eval.benchmarks._tau_bench.bank_credit import CreditCardTools
from chimera.eval.benchmarks._tau_bench.kernel import tool

DENIAL_REASONS = (
    "insufficient_account_age",
    "cooldown_period_active",
    "pending_disputes",
    "pending_replacement_card",
    "past_due_balance",
    "high_utilization",
    "insufficient_payment_history",
    "requested_amount_exceeds_limit",
    "other",
)
BAD_STANDING = ("PAST_DUE", "DELINQUENT", "COLLECTIONS", "CLOSED")


def _limit_request_id(account_id: str, user_id: str, amount: float) -> str:
    return f"cli_{digest_id(f'cli_request:{account_id}:{user_id}:{amount:.2f}', 12)}"


class CreditLimitTools(CreditCardTools):
    """What is done about the limit of a credit card."""

    official = "KnowledgeTools"

    @tool("write", discoverable=True)
    def submit_credit_limit_increase_request_7392(
        self, credit_card_account_id: str, user_id: str, requested_increase_amount: int
    ) -> str:
        need(
            credit_card_account_id and user_id and requested_increase_amount is not None,
            "Error: Missing required parameters.",
        )
        refusal = "Error: Invalid requested_increase_amount. Must be a whole number"
        wanted = number(requested_increase_amount, f"{refusal}.")
        need(wanted.is_integer(), f"{refusal} of dollars.")
        need(wanted > 0, "Error: Requested increase amount must be positive.")
        self._card_account(credit_card_account_id, user_id)
        key = _limit_request_id(credit_card_account_id, user_id, wanted)
        record = {
            "request_id": key,
            "credit_card_account_id": credit_card_account_id,
            "user_id": user_id,
            "requested_increase_amount": int(wanted),
            "submitted_at": TODAY,
            "status": "PENDING",
        }
        need(
            self._add("credit_limit_increase_requests", key, record),
            "Error: A similar request may already exist.",
        )
        shown = bullets(
            f"Request ID: {key}",
            f"Account: {credit_card_account_id}",
            f"Requested Increase: ${int(wanted):,}",
            "Status: PENDING",
        )
        return (
            "Credit limit increase request submitted successfully.\n\n"
            f"Executed: submit_credit_limit_increase_request_7392\n{shown}"
        )

    @tool("read", discoverable=True)
    def get_credit_limit_increase_history_4829(self, credit_card_account_id: str) -> str:
        return self._history(
            "get_credit_limit_increase_history_4829",
            "Credit limit increase history retrieved.",
            f"Credit limit increase history for account {credit_card_account_id}",
            ("credit_limit_increase_requests", "credit_card_account_id", credit_card_account_id),
            "No credit limit increase requests found for this account.",
        )

    @tool("read", discoverable=True)
    def get_payment_history_6183(self, credit_card_account_id: str, months: int) -> str:
        need(
            credit_card_account_id and months is not None,
            "Error: Missing required parameters (credit_card_account_id, months).",
        )
        try:
            months = int(months)
        except (TypeError, ValueError):
            raise Answer("Error: Invalid months value. Must be a positive integer.") from None
        need(months > 0, "Error: months must be a positive integer.")
        payments = [
            payment
            for payment in self.table("payment_history").values()
            if payment.get("credit_card_account_id") == credit_card_account_id
        ]
        need(payments, f"No payment history found for account '{credit_card_account_id}'.")
        payments.sort(key=lambda payment: payment.get("payment_date") or "", reverse=True)
        payments = payments[:months]
        late = [n for n, payment in enumerate(payments) if payment.get("status") != "ON_TIME"]
        lines = [
            f"Payment history for account '{credit_card_account_id}' (last {months} months):",
            f"Consecutive on-time payments: {late[0] if late else len(payments)}",
        ]
        lines += [
            f"\n  - Payment Date: {payment.get('payment_date')}\n"
            f"    Amount: {payment.get('amount')}\n"
            f"    Status: {payment.get('status')}"
            for payment in payments
        ]
        return "\n".join(lines)

    @tool("write", discoverable=True)
    def approve_credit_limit_increase_5847(
        self, credit_card_account_id: str, user_id: str, new_credit_limit: int
    ) -> str:
        need(
            credit_card_account_id and user_id and new_credit_limit is not None,
            "Error: Missing required parameters.",
        )
        account = self._card_account(credit_card_account_id, user_id)
        need(
            self._may_raise_limit(account, credit_card_account_id, user_id),
            "Error: Credit limit increase request cannot be approved at this time.",
        )
        before = money_or_zero(account.get("credit_limit", "$0.00"))
        refusal = f"Error: Invalid new_credit_limit '{new_credit_limit}'. Must be a number."
        after = number(new_credit_limit, refusal)
        account["credit_limit"] = f"${after:.2f}"
        key = _limit_request_id(credit_card_account_id, user_id, after - before)
        record = {
            "request_id": key,
            "credit_card_account_id": credit_card_account_id,
            "user_id": user_id,
            "previous_limit": f"${before:.2f}",
            "new_limit": f"${after:.2f}",
            "increase_amount": f"${after - before:.2f}",
            "decision_date": TODAY,
            "status": "APPROVED",
        }
        self._add("credit_limit_increase_requests", key, record)
        shown = bullets(
            f"Account: {credit_card_account_id}",
            f"Previous Limit: ${before:.2f}",
            f"New Limit: ${after:.2f}",
            f"Increase: ${after - before:.2f}",
            f"Effective Date: {TODAY}",
        )
        return (
            f"Credit limit increase approved!\n{shown}\n"
            "The customer will receive a confirmation email."
        )

    def _may_raise_limit(self, account: dict[str, Any], account_id: str, user_id: str) -> bool:
        disputed = any(
            dispute.get("user_id") == user_id
            and dispute.get("status") in ("SUBMITTED", "UNDER_REVIEW", "PENDING")
            for dispute in self.table("transaction_disputes").values()
        )
        replaced = any(
            order.get("credit_card_account_id") == account_id
            and order.get("status") in ("PENDING", "PROCESSING", "SHIPPED")
            for order in self.table("credit_card_orders").values()
        )
        standing = account.get("account_status", "").upper()
        return not disputed and not replaced and standing not in BAD_STANDING

    @tool("write", discoverable=True)
    def deny_credit_limit_increase_5848(
        self, credit_card_account_id: str, user_id: str, denial_reason: str
    ) -> str:
        need(
            credit_card_account_id and user_id and denial_reason,
            "Error: Missing required parameters.",
        )
        need(
            denial_reason in DENIAL_REASONS,
            f"Error: Invalid denial_reason. Must be one of: {', '.join(DENIAL_REASONS)}",
        )
        self._card_account(credit_card_account_id)
        key = _limit_request_id(credit_card_account_id, user_id, 0.0)
        record = {
            "request_id": key,
            "credit_card_account_id": credit_card_account_id,
            "user_id": user_id,
            "denial_reason": denial_reason,
            "decision_date": TODAY,
            "status": "DENIED",
        }
        self._add("credit_limit_increase_requests", key, record)
        shown = bullets(
            f"Account: {credit_card_account_id}",
            f"Denial Reason: {denial_reason}",
            f"Date: {TODAY}",
        )
        return (
            f"Credit limit increase request denied.\n{shown}\n"
            "The customer will receive a notification explaining the denial."
        )
