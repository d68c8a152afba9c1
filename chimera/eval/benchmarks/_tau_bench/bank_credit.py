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
    need,
    number,
    one_of,
    titled,
    transaction_id,
)
from chimera.eval.benchmarks._tau_bench.bank_tools import IN_BRACKETS, UNNAMED, inner, need_all

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


def money_or_zero(value: Any) -> float:
    try:
        return float(str(value).replace("$", "").replace(",", ""))
    except ValueError:
        return 0.0


class CreditCardTools(Bank):
    official = "KnowledgeTools"

    def _listed_card(self, account_id: str) -> None:
        need(
            self._is_listed("credit_card_accounts", "account_id", account_id),
            f"Error: Credit card account '{account_id}' not found.",
        )

    def _owned(self, table: str, account_id: str, label: str, user_id: str) -> Any:
        account = self._found(table, account_id, label)
        refusal = f"Error: {label} '{account_id}' does not belong to user '{user_id}'."
        need(account.get("user_id") == user_id, refusal)
        return account

    def _card_account(self, account_id: str, user_id: str) -> Any:
        return self._owned("credit_card_accounts", account_id, "Credit card account", user_id)

    @inner("write")
    def update_transaction_rewards_3847(self, **given: str) -> str:
        need_all(UNNAMED, **given)
        transaction, rewards = given.values()
        entry = self._found("credit_card_transaction_history", transaction, "Transaction")
        entry["rewards_earned"] = rewards
        shown = bullets(f"Transaction ID: {transaction}", f"New Rewards: {rewards}")
        return (
            "Transaction rewards updated successfully.\n\n"
            f"{executed('update_transaction_rewards_3847', given)}\nTransaction updated:\n{shown}"
        )

    @inner("write")
    def order_replacement_credit_card_7291(
        self, expedited_shipping: bool = False, **given: str
    ) -> str:
        need_all(IN_BRACKETS, **given)
        credit_card_account_id, user_id, shipping_address, reason = given.values()
        one_of(reason, REPLACEMENT_REASONS, "reason")
        self._listed_card(credit_card_account_id)
        seed = f"credit_card_order:{credit_card_account_id}:{user_id}:{reason}"
        key = f"ccord_{digest_id(seed, 12)}"
        record = {
            "order_id": key,
            **given,
            "expedited_shipping": expedited_shipping,
            "order_date": TODAY,
            "status": "ORDERED",
            "old_card_cancelled": True,
        }
        refusal = "Error: Order may have already been placed for this card replacement."
        need(self._add("credit_card_orders", key, record), refusal)
        accounts = self.table("credit_card_accounts")
        if credit_card_account_id in accounts:
            accounts[credit_card_account_id].update(status="CLOSED", closed_date=TODAY)
        days = "2-3 business days" if expedited_shipping else "7-10 business days"
        return (
            f"Order ID: {key}\n"
            f"Card Account: {credit_card_account_id}\n"
            f"Reason: {titled(reason)}\n"
            f"Shipping Address: {shipping_address}\n"
            f"Shipping Method: {'Expedited' if expedited_shipping else 'Standard'}\n"
            f"Expected Delivery: {days}\n\n"
            "The old card has been cancelled for security. The new card will have the same "
            "account number but a new card number and CVV."
        )

    @inner("read")
    def get_pending_replacement_orders_5765(self, **given: str) -> str:
        return self._history(
            "get_pending_replacement_orders_5765",
            "Pending replacement orders check completed.",
            "Replacement orders for credit card account {}",
            "credit_card_orders",
            "No pending replacement orders found for this credit card account.",
            given,
        )

    @inner("write")
    def log_credit_card_closure_reason_4521(self, **given: str) -> str:
        need_all(UNNAMED, **given)
        account_id, user_id, reason = given.values()
        one_of(reason, CLOSURE_REASONS, "closure_reason")
        key = f"clsr_{digest_id(f'closure_reason:{account_id}:{user_id}', 12)}"
        record = {"record_id": key, **given, "logged_at": TODAY, "status": "LOGGED"}
        self._add("credit_card_closure_reasons", key, record)
        return (
            "Closure reason logged successfully.\n\n"
            f"{executed('log_credit_card_closure_reason_4521', given)}\n"
            f"Closure reason '{reason}' logged for account {account_id}."
        )

    @inner("read")
    def get_closure_reason_history_8293(self, **given: str) -> str:
        return self._history(
            "get_closure_reason_history_8293",
            "Closure reason history retrieved successfully.",
            "Closure reason history for credit card account {}",
            "credit_card_closure_reasons",
            "No closure reason records found for this credit card account.",
            given,
        )

    @inner("write")
    def apply_statement_credit_8472(self, **given: Any) -> str:
        user_id, credit_card_account_id, amount, reason = given.values()
        need_all(IN_BRACKETS, **given | {"amount": amount is not None})
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
        refusal = (
            f"Error: Failed to apply statement credit. Transaction ID '{key}' may already exist."
        )
        need(self._add("credit_card_transaction_history", key, record), refusal)
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

    @inner("write")
    def apply_credit_card_account_flag_6147(self, **given: str) -> str:
        need_all(IN_BRACKETS, **given)
        credit_card_account_id, user_id, flag_type, expiration_date, reason = given.values()
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
            **given,
            "applied_at": TODAY,
            "status": "ACTIVE",
        }
        refusal = f"Error: Failed to apply account flag. Flag ID '{key}' may already exist."
        need(self._add("credit_card_account_flags", key, record), refusal)
        return "Account flag applied successfully!\n" + bullets(
            f"Flag ID: {key}",
            f"Account: {credit_card_account_id}",
            f"User ID: {user_id}",
            f"Flag Type: {titled(flag_type)}",
            f"Effective Date: {TODAY}",
            f"Expiration Date: {expiration_date}",
            f"Reason: {titled(reason)}",
        )

    @inner("write")
    def close_credit_card_account_7834(self, **given: str) -> str:
        need_all(IN_BRACKETS, **given)
        account_id, user_id = given.values()
        self._listed_card(account_id)
        accounts = self.table("credit_card_accounts")
        refusal = f"Error: Failed to close credit card account '{account_id}'."
        need(account_id in accounts, refusal)
        accounts[account_id].update(status="CLOSED", closed_date=TODAY, closed_by=user_id)
        return (
            "Credit card account closed successfully.\n\n"
            f"{executed('close_credit_card_account_7834', given)}\n"
            f"Account {account_id} has been closed."
        )

    @inner("write")
    def pay_credit_card_from_checking_9182(self, **given: Any) -> str:
        user_id, checking_account_id, credit_card_account_id, amount = given.values()
        need_all(IN_BRACKETS, **given | {"amount": amount is not None})
        amount = number(amount, "Error: Invalid payment amount. Must be a positive number.")
        need(amount > 0, "Error: Payment amount must be a positive number.")
        checking = self._owned("accounts", checking_account_id, "Checking account", user_id)
        refusal = f"Error: Account '{checking_account_id}' is not a checking account."
        need(checking.get("class") == "checking", refusal)
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
