"""Credit card tools of tau2-bench's bank that its agents must unlock before use."""

from __future__ import annotations

from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
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
    transaction_id,
)
from chimera.eval.benchmarks._tau_bench.kernel import tool

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
    def get_pending_replacement_orders_5765(self, credit_card_account_id: str) -> str:
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
