"""Credit card tools of tau2-bench's bank that its agents must unlock before use."""

from __future__ import annotations

from typing import Any

from chimera.eval.tau.bank import (
    TODAY,
    Answer,
    Bank,
    balance_of,
    bullets,
    digest_id,
    executed,
    money_or_zero,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.tau.kernel import tool

DISPUTE_REASONS = (
    "unauthorized_fraudulent_charge",
    "duplicate_charge",
    "incorrect_amount",
    "goods_services_not_received",
    "goods_services_not_as_described",
    "canceled_subscription_still_charging",
    "refund_never_processed",
)
REPLACEMENT_REASONS = ("fraud_suspected", "lost", "stolen", "damaged", "expired", "other")
CLOSURE_REASONS = (
    "annual_fee",
    "not_using_card",
    "found_better_card",
    "unhappy_with_rewards",
    "simplifying_finances",
    "negative_experience",
    "other",
)
CREDIT_REASONS = (
    "goodwill_adjustment",
    "promotional_credit",
    "annual_fee_reversal",
    "late_fee_reversal",
    "interest_charge_reversal",
    "dispute_resolution",
    "price_match",
    "retention_offer",
    "error_correction",
    "other",
)
FLAG_TYPES = ("annual_fee_waived", "promotional_apr", "rewards_bonus", "other")
FLAG_REASONS = ("retention_offer", "loyalty_benefit", "promotional", "error_correction", "other")
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


def dispute_id(user_id: str, transaction_id: str) -> str:
    return f"dsp_{digest_id(f'dispute:{user_id}:{transaction_id}', 12)}"


def transaction_id(user: str, card: str, merchant: str, amount: float, category: str) -> str:
    seed = ":".join(["transaction", user, card, merchant, f"{amount:.2f}", category])
    return f"txn_{digest_id(seed, 12)}"


def _limit_request_id(account_id: str, user_id: str, amount: float) -> str:
    return f"cli_{digest_id(f'cli_request:{account_id}:{user_id}:{amount:.2f}', 12)}"


class CreditCardTools(Bank):
    official = "KnowledgeTools"

    def _listed_card(self, account_id: str) -> None:
        need(
            self._is_listed("credit_card_accounts", "account_id", account_id),
            f"Error: Credit card account '{account_id}' not found.",
        )

    def _card_account(self, account_id: str, user_id: str | None = None) -> dict[str, Any]:
        accounts = self.table("credit_card_accounts")
        need(account_id in accounts, f"Error: Credit card account '{account_id}' not found.")
        account: dict[str, Any] = accounts[account_id]
        owned = user_id is None or account.get("user_id") == user_id
        need(
            owned,
            f"Error: Credit card account '{account_id}' does not belong to user '{user_id}'.",
        )
        return account

    @tool("write", discoverable=True)
    def update_transaction_rewards_3847(self, transaction_id: str, new_rewards_earned: str) -> str:
        need(transaction_id and new_rewards_earned, "Error: Missing required parameters.")
        history = self.table("credit_card_transaction_history")
        need(transaction_id in history, f"Error: Transaction '{transaction_id}' not found.")
        history[transaction_id]["rewards_earned"] = new_rewards_earned
        given = {"transaction_id": transaction_id, "new_rewards_earned": new_rewards_earned}
        shown = bullets(f"Transaction ID: {transaction_id}", f"New Rewards: {new_rewards_earned}")
        return (
            "Transaction rewards updated successfully.\n\n"
            f"{executed('update_transaction_rewards_3847', given)}\nTransaction updated:\n{shown}"
        )

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

    @tool("write", discoverable=True)
    def order_replacement_credit_card_7291(
        self,
        credit_card_account_id: str,
        user_id: str,
        shipping_address: str,
        reason: str,
        expedited_shipping: bool = False,
    ) -> str:
        need(
            credit_card_account_id and user_id and shipping_address and reason,
            "Error: Missing required parameters (credit_card_account_id, user_id, "
            "shipping_address, reason).",
        )
        one_of(reason, REPLACEMENT_REASONS, "reason")
        self._listed_card(credit_card_account_id)
        seed = f"credit_card_order:{credit_card_account_id}:{user_id}:{reason}"
        key = f"ccord_{digest_id(seed, 12)}"
        record = {
            "order_id": key,
            "credit_card_account_id": credit_card_account_id,
            "user_id": user_id,
            "shipping_address": shipping_address,
            "reason": reason,
            "expedited_shipping": expedited_shipping,
            "order_date": TODAY,
            "status": "ORDERED",
            "old_card_cancelled": True,
        }
        need(
            self._add("credit_card_orders", key, record),
            "Error: Order may have already been placed for this card replacement.",
        )
        accounts = self.table("credit_card_accounts")
        if credit_card_account_id in accounts:
            accounts[credit_card_account_id].update(status="CLOSED", closed_date=TODAY)
        days = "2-3 business days" if expedited_shipping else "7-10 business days"
        return "\n".join(
            [
                f"Order ID: {key}",
                f"Card Account: {credit_card_account_id}",
                f"Reason: {titled(reason)}",
                f"Shipping Address: {shipping_address}",
                f"Shipping Method: {'Expedited' if expedited_shipping else 'Standard'}",
                f"Expected Delivery: {days}",
                "",
                "The old card has been cancelled for security. The new card will have the same "
                "account number but a new card number and CVV.",
            ]
        )

    @tool("read", discoverable=True)
    def get_user_dispute_history_7291(self, user_id: str) -> str:
        need(user_id, "Error: Missing required parameter: user_id")
        return self._history(
            "get_user_dispute_history_7291",
            "User transaction dispute history retrieved successfully.",
            f"Transaction dispute history for user {user_id}",
            ("transaction_disputes", "user_id", user_id),
            "No transaction disputes found for this user.",
        )

    @tool("read", discoverable=True)
    def get_pending_replacement_orders_5765(self, credit_card_account_id: str) -> str:
        need(credit_card_account_id, "Error: Missing required parameter: credit_card_account_id")
        return self._history(
            "get_pending_replacement_orders_5765",
            "Pending replacement orders check completed.",
            f"Replacement orders for credit card account {credit_card_account_id}",
            ("credit_card_orders", "credit_card_account_id", credit_card_account_id),
            "No pending replacement orders found for this credit card account.",
        )

    @tool("write", discoverable=True)
    def log_credit_card_closure_reason_4521(
        self, credit_card_account_id: str, user_id: str, closure_reason: str
    ) -> str:
        need(
            credit_card_account_id and user_id and closure_reason,
            "Error: Missing required parameters.",
        )
        one_of(closure_reason, CLOSURE_REASONS, "closure_reason")
        key = f"clsr_{digest_id(f'closure_reason:{credit_card_account_id}:{user_id}', 12)}"
        given = {
            "credit_card_account_id": credit_card_account_id,
            "user_id": user_id,
            "closure_reason": closure_reason,
        }
        record = {"record_id": key, **given, "logged_at": TODAY, "status": "LOGGED"}
        self._add("credit_card_closure_reasons", key, record)
        return (
            "Closure reason logged successfully.\n\n"
            f"{executed('log_credit_card_closure_reason_4521', given)}\n"
            f"Closure reason '{closure_reason}' logged for account {credit_card_account_id}."
        )

    @tool("read", discoverable=True)
    def get_closure_reason_history_8293(self, credit_card_account_id: str) -> str:
        need(credit_card_account_id, "Error: Missing required parameter: credit_card_account_id")
        return self._history(
            "get_closure_reason_history_8293",
            "Closure reason history retrieved successfully.",
            f"Closure reason history for credit card account {credit_card_account_id}",
            ("credit_card_closure_reasons", "credit_card_account_id", credit_card_account_id),
            "No closure reason records found for this credit card account.",
        )

    @tool("write", discoverable=True)
    def apply_statement_credit_8472(
        self, user_id: str, credit_card_account_id: str, amount: float, reason: str
    ) -> str:
        need(
            user_id and credit_card_account_id and amount is not None and reason,
            "Error: Missing required parameters (user_id, credit_card_account_id, amount, reason).",
        )
        amount = number(amount, f"Error: Invalid amount '{amount}'. Must be a number.")
        need(amount > 0, "Error: Credit amount must be positive.")
        one_of(reason, CREDIT_REASONS, "reason")
        self._listed_card(credit_card_account_id)
        key = transaction_id(user_id, "STATEMENT_CREDIT", reason, amount, "Statement Credit")
        record = {
            "transaction_id": key,
            "user_id": user_id,
            "credit_card_account_id": credit_card_account_id,
            "credit_card_type": "N/A",
            "merchant_name": "Rho-Bank Statement Credit",
            "transaction_amount": f"-${amount:.2f}",
            "transaction_date": TODAY,
            "category": "Statement Credit",
            "status": "COMPLETED",
            "rewards_earned": "0 points",
            "credit_reason": reason,
        }
        need(
            self._add("credit_card_transaction_history", key, record),
            f"Error: Failed to apply statement credit. Transaction ID '{key}' may already exist.",
        )
        shown = bullets(
            f"Transaction ID: {key}",
            f"User ID: {user_id}",
            f"Account: {credit_card_account_id}",
            f"Credit Amount: ${amount:.2f}",
            f"Reason: {titled(reason)}",
            f"Date: {TODAY}",
        )
        return (
            "Statement credit applied successfully.\n\n"
            f"Executed: apply_statement_credit_8472\n{shown}"
        )

    @tool("write", discoverable=True)
    def apply_credit_card_account_flag_6147(
        self,
        credit_card_account_id: str,
        user_id: str,
        flag_type: str,
        expiration_date: str,
        reason: str,
    ) -> str:
        need(
            credit_card_account_id and user_id and flag_type and expiration_date and reason,
            "Error: Missing required parameters (credit_card_account_id, user_id, flag_type, "
            "expiration_date, reason).",
        )
        one_of(flag_type, FLAG_TYPES, "flag_type")
        one_of(reason, FLAG_REASONS, "reason")
        self._listed_card(credit_card_account_id)
        seed = f"account_flag:{credit_card_account_id}:{flag_type}:{expiration_date}"
        key = f"ccflag_{digest_id(seed, 12)}"
        record = {
            "flag_id": key,
            "credit_card_account_id": credit_card_account_id,
            "user_id": user_id,
            "flag_type": flag_type,
            "effective_date": TODAY,
            "expiration_date": expiration_date,
            "reason": reason,
            "applied_at": TODAY,
            "status": "ACTIVE",
        }
        need(
            self._add("credit_card_account_flags", key, record),
            f"Error: Failed to apply account flag. Flag ID '{key}' may already exist.",
        )
        return "Account flag applied successfully!\n" + bullets(
            f"Flag ID: {key}",
            f"Account: {credit_card_account_id}",
            f"User ID: {user_id}",
            f"Flag Type: {titled(flag_type)}",
            f"Effective Date: {TODAY}",
            f"Expiration Date: {expiration_date}",
            f"Reason: {titled(reason)}",
        )

    @tool("write", discoverable=True)
    def close_credit_card_account_7834(self, credit_card_account_id: str, user_id: str) -> str:
        need(
            credit_card_account_id and user_id,
            "Error: Missing required parameters (credit_card_account_id, user_id).",
        )
        self._listed_card(credit_card_account_id)
        accounts = self.table("credit_card_accounts")
        need(
            credit_card_account_id in accounts,
            f"Error: Failed to close credit card account '{credit_card_account_id}'.",
        )
        changes = {"status": "CLOSED", "closed_date": TODAY, "closed_by": user_id}
        accounts[credit_card_account_id].update(changes)
        given = {"credit_card_account_id": credit_card_account_id, "user_id": user_id}
        return (
            "Credit card account closed successfully.\n\n"
            f"{executed('close_credit_card_account_7834', given)}\n"
            f"Account {credit_card_account_id} has been closed."
        )

    @tool("write", discoverable=True)
    def pay_credit_card_from_checking_9182(
        self, user_id: str, checking_account_id: str, credit_card_account_id: str, amount: float
    ) -> str:
        need(
            user_id and checking_account_id and credit_card_account_id and amount is not None,
            "Error: Missing required parameters (user_id, checking_account_id, "
            "credit_card_account_id, amount).",
        )
        amount = number(amount, "Error: Invalid payment amount. Must be a positive number.")
        need(amount > 0, "Error: Payment amount must be a positive number.")
        checking = self._checking_of(user_id, checking_account_id)
        available = balance_of(checking)
        need(
            amount <= available,
            "Error: Insufficient funds in checking account. Available balance: "
            f"${available:.2f}, requested payment: ${amount:.2f}.",
        )
        card = self._card_account(credit_card_account_id, user_id)
        owed = money_or_zero(card.get("current_balance", "$0.00"))
        need(
            amount <= owed,
            f"Error: Payment amount (${amount:.2f}) exceeds credit card balance (${owed:.2f}). "
            "Please specify an amount up to the outstanding balance.",
        )
        checking["current_holdings"] = f"{available - amount:.2f}"
        card["current_balance"] = f"${owed - amount:.2f}"
        shown = bullets(
            f"Payment Amount: ${amount:.2f}",
            f"From Checking Account: {checking_account_id}",
            f"To Credit Card Account: {credit_card_account_id}",
            f"New Checking Balance: ${available - amount:.2f}",
            f"New Credit Card Balance: ${owed - amount:.2f}",
        )
        return (
            f"Payment processed successfully!\n{shown}\nThe payment has been applied immediately."
        )

    def _checking_of(self, user_id: str, account_id: str) -> dict[str, Any]:
        accounts = self.table("accounts")
        need(account_id in accounts, f"Error: Checking account '{account_id}' not found.")
        account: dict[str, Any] = accounts[account_id]
        need(
            account.get("user_id") == user_id,
            f"Error: Checking account '{account_id}' does not belong to user '{user_id}'.",
        )
        need(
            account.get("class") == "checking",
            f"Error: Account '{account_id}' is not a checking account.",
        )
        return account

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
        need(credit_card_account_id, "Error: Missing required parameter: credit_card_account_id")
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
