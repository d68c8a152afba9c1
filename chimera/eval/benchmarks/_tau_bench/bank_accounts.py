"""Bank account tools of tau2-bench's bank that its agents must unlock before use."""

from __future__ import annotations

import datetime
from typing import Any

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    Bank,
    balance_of,
    bullets,
    days_since,
    digest_id,
    history,
    listed,
    need,
    number,
    one_of,
    titled,
)
from chimera.eval.benchmarks._tau_bench.bank_tools import IN_BRACKETS, UNNAMED, inner, need_all

ACCOUNT_TYPES = ("checking", "savings", "business_checking", "business_savings")
NOT_ELIGIBLE = "Error: Account eligibility requirements not met."
#: Credits on accounts: their types, the classes they are for, how the new balance is written.
CREDITS = {
    "checking": (
        ("rebate_credit", "fee_refund"),
        ("checking",),
        "$",
        "Credits can only be applied to checking accounts.",
    ),
    "savings": (
        ("interest_correction", "fee_refund", "goodwill_credit"),
        ("saving", "savings"),
        "",
        "This tool only applies to savings accounts.",
    ),
}
#: Early closure: the fee and the days within which it is due, by account class and level.
CLOSURE_FEES = {
    "checking": {
        "Light Blue Account": (15, 30),
        "Light Green Account": (15, 30),
        "Green Fee-Free Account": (15, 30),
        "Blue Account": (25, 60),
        "Green Account": (25, 60),
        "Evergreen Account": (50, 90),
        "Bluest Account": (100, 180),
    },
    "savings": {
        "Bronze Account": (20, 60),
        "Silver Account": (35, 90),
        "Silver Plus Account": (35, 90),
        "Gold Account": (75, 180),
        "Gold Plus Account": (75, 180),
        "Gold Years Account": (75, 180),
        "Platinum Account": (150, 270),
        "Platinum Plus Account": (150, 270),
        "Diamond Elite Account": (150, 270),
    },
}


def _kind(account: dict[str, Any]) -> str:
    kind: str = account.get("account_type", account.get("class", ""))
    return kind


def _is_open(account: dict[str, Any]) -> bool:
    return account.get("status", "") in ("OPEN", "ACTIVE")


def _aged(account: dict[str, Any], days: int) -> bool:
    return (days_since(account.get("date_opened", "")) or 0) >= days


class AccountTools(Bank):
    official = "KnowledgeTools"

    @inner("write")
    def open_bank_account_4821(self, **given: str) -> str:
        need_all(UNNAMED, **given)
        user_id, account_type, account_class = given.values()
        one_of(account_type, ACCOUNT_TYPES, "account_type")
        need(self._may_open(user_id, account_type), NOT_ELIGIBLE)
        key = digest_id(f"account:{user_id}:{account_type}:{account_class}")
        opened = {"current_holdings": "0.00", "status": "OPEN", "date_opened": TODAY}
        refusal = f"Failed to open account: Account ID '{key}' may already exist."
        need(self._add("accounts", key, {"account_id": key, **given, **opened}), refusal)
        return "Bank account opened successfully!\n" + bullets(
            f"Account ID: {key}",
            f"User ID: {user_id}",
            f"Account Type: {account_type}",
            f"Account Class: {account_class}",
            "Status: OPEN",
            "Initial Balance: $0.00",
            f"Date Opened: {TODAY}",
        )

    def _may_open(self, user_id: str, account_type: str) -> bool:
        """What each type asks for: savings a checking account of 14 days; business checking an open
        personal one and none closed; business savings a business one of 30 days and no debts."""
        owned = [a for a in self.table("accounts").values() if a.get("user_id") == user_id]
        personal = [a for a in owned if _kind(a) in ("checking", "personal_checking")]
        if account_type == "savings":
            return any(_is_open(account) and _aged(account, 14) for account in personal)
        if account_type == "business_checking":
            closed = any(account.get("status") == "CLOSED" for account in owned)
            return not closed and any(map(_is_open, personal))
        if account_type == "business_savings":
            if any(balance_of(account) < 0 for account in owned):
                return False
            business = [a for a in owned if _kind(a) == "business_checking"]
            return any(_is_open(account) and _aged(account, 30) for account in business)
        return True

    @inner("write")
    def close_bank_account_7392(
        self,
        account_id: str,
        reason: str = "Customer requested closure",
        waive_early_closure_fee: bool = False,
    ) -> str:
        need(account_id, "Error: Missing required parameter (account_id).")
        account = self._found("accounts", account_id, "Account")
        need(account.get("status") != "CLOSED", f"Error: Account '{account_id}' is already closed.")
        balance = balance_of(account)
        fee = 0 if waive_early_closure_fee else self._closure_fee(account)
        need(not fee or balance >= fee, "Error: Account unable to be closed.")
        need(
            balance - fee == 0,
            f"Error: Account balance must be $0.00 before closing. Current balance: ${balance:.2f}",
        )
        account.update(status="CLOSED", date_closed=TODAY, closure_reason=reason)
        account["early_closure_fee_waived"] = waive_early_closure_fee
        return "Bank account closed successfully!\n" + bullets(
            f"Account ID: {account_id}",
            f"Account Type: {account.get('account_type', 'N/A')}",
            f"Account Class: {account.get('account_class', 'N/A')}",
            "Status: CLOSED",
            f"Date Closed: {TODAY}",
            f"Reason: {reason}",
            f"Early Closure Fee Waived: {'Yes' if waive_early_closure_fee else 'No'}",
        )

    @staticmethod
    def _closure_fee(account: dict[str, Any]) -> int:
        fees = CLOSURE_FEES.get(account.get("class", ""), {})
        fee, window = fees.get(account.get("level", ""), (0, 0))
        age = days_since(account.get("date_opened", ""))
        return fee if age is not None and age < window else 0

    @inner("read")
    def get_all_user_accounts_by_user_id_3847(self, user_id: str) -> str:
        need(user_id, "Error: Missing required parameter: user_id")
        accounts = self._query("accounts", "user_id", user_id)
        cards = self._query("credit_card_accounts", "user_id", user_id)
        if "No records found" in accounts:
            accounts = "  No bank accounts found."
        if "No records found" in cards:
            cards = "  No credit card accounts found."
        return (
            "User accounts retrieved successfully.\n\n"
            "Executed: get_all_user_accounts_by_user_id_3847\n"
            f"Accounts for user {user_id}:\n\n"
            f"Bank Accounts:\n{accounts}\n\nCredit Card Accounts:\n{cards}"
        )

    @inner("write")
    def transfer_funds_between_bank_accounts_7291(self, **given: Any) -> str:
        source_account_id, destination_account_id, amount = given.values()
        need_all(IN_BRACKETS, **given | {"amount": amount is not None})
        amount = number(amount, f"Error: Invalid amount '{amount}'. Must be a number.")
        need(amount > 0, "Error: Transfer amount must be positive.")
        need(
            source_account_id != destination_account_id,
            "Error: Source and destination accounts cannot be the same.",
        )
        source = self._found("accounts", source_account_id, "Source account")
        target = self._found("accounts", destination_account_id, "Destination account")
        self._active(source, source_account_id, "Source account")
        self._active(target, destination_account_id, "Destination account")
        before = balance_of(source)
        need(
            before >= amount,
            f"Error: Insufficient funds. Source account balance is ${before:.2f}, "
            f"but transfer amount is ${amount:.2f}.",
        )
        after, received = before - amount, balance_of(target) + amount
        source["current_holdings"] = f"${after:.2f}"
        target["current_holdings"] = f"${received:.2f}"
        return "Transfer completed successfully!\n" + bullets(
            f"Amount: ${amount:.2f}",
            f"From: {source_account_id} (new balance: ${after:.2f})",
            f"To: {destination_account_id} (new balance: ${received:.2f})",
        )

    @inner("write")
    def apply_checking_account_credit_5829(self, **given: Any) -> str:
        return self._credit("checking", **given)

    @inner("write")
    def apply_savings_account_credit_6831(self, **given: Any) -> str:
        return self._credit("savings", **given)

    def _credit(self, kind: str, account_id: str, amount: Any, credit_type: str) -> str:
        need_all(UNNAMED, account=account_id, amount=amount is not None, credit=credit_type)
        amount = number(amount, "Error: Invalid credit amount. Must be a number.")
        need(amount > 0, "Error: Credit amount must be positive.")
        allowed, classes, currency, consequence = CREDITS[kind]
        one_of(credit_type, allowed, "credit_type")
        account = self._found("accounts", account_id, "Account")
        need(
            account.get("class", "").lower() in classes,
            f"Error: Account '{account_id}' is not a {kind} account. {consequence}",
        )
        self._active(account, account_id)
        before = balance_of(account)
        account["current_holdings"] = f"{currency}{before + amount:.2f}"
        seed = f"{kind}_credit:{account_id}:{credit_type}:{amount}:{TODAY}"
        key = f"txn_{digest_id(seed)}"
        self.table("bank_account_transaction_history")[key] = {
            "transaction_id": key,
            "account_id": account_id,
            "date": TODAY,
            "description": f"{titled(credit_type).upper()} - CUSTOMER SERVICE",
            "amount": amount,
            "type": credit_type,
            "status": "posted",
        }
        return "\nCredit applied successfully!\n" + bullets(
            f"Transaction ID: {key}",
            f"Account: {account_id}",
            f"Credit Type: {credit_type}",
            f"Amount: ${amount:.2f}",
            f"Previous Balance: ${before:.2f}",
            f"New Balance: ${before + amount:.2f}",
        )

    @inner("write")
    def submit_interest_discrepancy_report_7294(self, **given: Any) -> str:
        account_id, user_id, *figures = given.values()
        need(account_id and user_id and None not in figures, UNNAMED)
        refusal = "Error: expected_apy, actual_apy, and amount_difference must be numbers."
        expected, actual, amount = (number(figure, refusal) for figure in figures)
        account = self._found("accounts", account_id, "Account")
        user = self.table("users").get(user_id)
        need(user is not None, f"Error: User '{user_id}' not found.")
        seed = f"interest_report:{account_id}:{user_id}:{expected}:{actual}:{TODAY}"
        key = f"IDR_{digest_id(seed)}"
        level = account.get("level", "Unknown")
        difference = round(expected - actual, 4)
        record = {
            "report_id": key,
            "account_id": account_id,
            "user_id": user_id,
            "account_level": level,
            "expected_apy": expected,
            "actual_apy": actual,
            "apy_difference": difference,
            "amount_difference": amount,
            "submitted_date": TODAY,
            "status": "PENDING_REVIEW",
        }
        self._add("interest_discrepancy_reports", key, record)
        shown = bullets(
            f"Report ID: {key}",
            f"Account: {account_id} ({level})",
            f"Customer: {(user or {}).get('name', 'Unknown')}",
            f"Expected APY: {expected}%",
            f"Actual APY: {actual}%",
            f"APY Difference: {difference}%",
            f"Amount Difference: ${amount:.2f}",
            "Status: PENDING_REVIEW",
        )
        return (
            f"\nInterest Discrepancy Report Submitted Successfully!\n{shown}\n\n"
            "The backend team will investigate this discrepancy and ensure "
            "correct APY calculations are applied going forward."
        )

    @inner("read")
    def get_bank_account_transactions_9173(self, account_id: str) -> str:
        """The latest first; those of a day stay in the order of the books."""
        need(account_id, "Error: Missing required parameter: account_id")
        self._found("accounts", account_id, "Account")
        table = "bank_account_transaction_history"
        found = [
            (key, entry)
            for key, entry in self.table(table).items()
            if entry.get("account_id") == account_id
        ]
        found.sort(key=lambda item: _moment(str(item[1].get("date", ""))), reverse=True)
        return history(
            "get_bank_account_transactions_9173",
            "Bank account transactions retrieved successfully.",
            f"Transactions for account {account_id}",
            listed(table, found),
            "No transactions found for this account.",
        )


def _moment(text: str) -> datetime.datetime:
    for form in ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y"):
        try:
            return datetime.datetime.strptime(text, form)
        except ValueError:
            continue
    return datetime.datetime.min
