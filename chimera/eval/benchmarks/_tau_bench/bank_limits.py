"""Credit limits at tau2-bench's bank; agents must unlock these tools."""

from __future__ import annotations

from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import TODAY, Answer, bullets, digest_id, need, number
from chimera.eval.benchmarks._tau_bench.bank_credit import CreditCardTools, money_or_zero
from chimera.eval.benchmarks._tau_bench.bank_tools import IN_BRACKETS, UNNAMED, inner, need_all

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


class CreditLimitTools(CreditCardTools):
    """What is done about the limit of a credit card."""

    official = "KnowledgeTools"

    def _request(
        self, account_id: str, user_id: str, amount: float, details: dict[str, Any]
    ) -> tuple[str, bool]:
        """Enter what became of a request; its id, and whether it is a new one."""
        key = f"cli_{digest_id(f'cli_request:{account_id}:{user_id}:{amount:.2f}', 12)}"
        asked = {"request_id": key, "credit_card_account_id": account_id, "user_id": user_id}
        return key, self._add("credit_limit_increase_requests", key, {**asked, **details})

    @inner("write")
    def submit_credit_limit_increase_request_7392(self, **given: Any) -> str:
        account_id, user_id, increase = given.values()
        need(account_id and user_id and increase is not None, UNNAMED)
        refusal = "Error: Invalid requested_increase_amount. Must be a whole number"
        wanted = number(increase, f"{refusal}.")
        need(wanted.is_integer(), f"{refusal} of dollars.")
        need(wanted > 0, "Error: Requested increase amount must be positive.")
        self._card_account(account_id, user_id)
        entered = {"requested_increase_amount": int(wanted), "submitted_at": TODAY}
        key, new = self._request(account_id, user_id, wanted, {**entered, "status": "PENDING"})
        need(new, "Error: A similar request may already exist.")
        shown = bullets(
            f"Request ID: {key}",
            f"Account: {account_id}",
            f"Requested Increase: ${int(wanted):,}",
            "Status: PENDING",
        )
        return (
            "Credit limit increase request submitted successfully.\n\n"
            f"Executed: submit_credit_limit_increase_request_7392\n{shown}"
        )

    @inner("read")
    def get_credit_limit_increase_history_4829(self, **given: str) -> str:
        return self._history(
            "get_credit_limit_increase_history_4829",
            "Credit limit increase history retrieved.",
            "Credit limit increase history for account {}",
            "credit_limit_increase_requests",
            "No credit limit increase requests found for this account.",
            given,
        )

    @inner("read")
    def get_payment_history_6183(self, credit_card_account_id: str, months: int) -> str:
        given = {"credit_card_account_id": credit_card_account_id, "months": months is not None}
        need_all(IN_BRACKETS, **given)
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

    @inner("write")
    def approve_credit_limit_increase_5847(self, **given: Any) -> str:
        account_id, user_id, limit = given.values()
        need(account_id and user_id and limit is not None, UNNAMED)
        account = self._card_account(account_id, user_id)
        refusal = "Error: Credit limit increase request cannot be approved at this time."
        need(self._may_raise_limit(account, account_id, user_id), refusal)
        before = money_or_zero(account.get("credit_limit", "$0.00"))
        after = number(limit, f"Error: Invalid new_credit_limit '{limit}'. Must be a number.")
        account["credit_limit"] = f"${after:.2f}"
        details = {
            "previous_limit": f"${before:.2f}",
            "new_limit": f"${after:.2f}",
            "increase_amount": f"${after - before:.2f}",
            "decision_date": TODAY,
            "status": "APPROVED",
        }
        self._request(account_id, user_id, after - before, details)
        shown = bullets(
            f"Account: {account_id}",
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

    @inner("write")
    def deny_credit_limit_increase_5848(self, **given: str) -> str:
        need_all(UNNAMED, **given)
        account_id, user_id, reason = given.values()
        refusal = f"Error: Invalid denial_reason. Must be one of: {', '.join(DENIAL_REASONS)}"
        need(reason in DENIAL_REASONS, refusal)
        self._found("credit_card_accounts", account_id, "Credit card account")
        details = {"denial_reason": reason, "decision_date": TODAY, "status": "DENIED"}
        self._request(account_id, user_id, 0.0, details)
        shown = bullets(f"Account: {account_id}", f"Denial Reason: {reason}", f"Date: {TODAY}")
        return (
            f"Credit limit increase request denied.\n{shown}\n"
            "The customer will receive a notification explaining the denial."
        )
