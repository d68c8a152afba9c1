"""The books of tau2-bench's bank: tables of records, queries as text, ids made from content."""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from chimera.eval.benchmarks._tau_bench.kernel import Database, Toolkit

NOW = datetime.datetime(2025, 11, 14, 3, 40)
TODAY = "11/14/2025"
TABLES = (
    "users",
    "accounts",
    "debit_cards",
    "referrals",
    "credit_card_applications",
    "user_discoverable_tools",
    "user_discoverable_tool_calls",
    "verification_history",
    "credit_card_transaction_history",
    "cash_back_disputes",
    "bank_account_transaction_history",
    "credit_card_accounts",
    "agent_discoverable_tools",
    "task_config",
    "human_transfer_requests",
    "transaction_disputes",
    "credit_card_orders",
    "debit_card_orders",
    "credit_card_closure_reasons",
    "credit_card_account_flags",
    "credit_limit_increase_requests",
    "payment_history",
    "debit_card_disputes",
    "interest_discrepancy_reports",
)


class Answer(Exception):
    """A result that ends a tool early; at this bank refusals are results, not failures."""


def need(condition: object, text: str) -> None:
    if not condition:
        raise Answer(text)


def one_of(value: Any, options: Sequence[str], name: str) -> None:
    need(value in options, f"Error: Invalid {name}. Must be one of: {list(options)}")


def number(value: Any, refusal: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise Answer(refusal) from None


def titled(text: str) -> str:
    return text.replace("_", " ").title()


def balance_of(account: Mapping[str, Any]) -> float:
    """What is on an account, where it stands as a number or as text like '$2,850.00'."""
    value = account.get("current_holdings", account.get("balance", 0))
    if isinstance(value, str):
        value = value.replace("$", "").replace(",", "")
    return float(value) if isinstance(value, (int, float, str)) else 0.0


def days_since(date: str) -> int | None:
    """Days from a date like 11/14/2025 until now; None when it is no date."""
    try:
        return (NOW - datetime.datetime.strptime(date, "%m/%d/%Y")).days
    except ValueError:
        return None


def digest_id(seed: str, length: int = 16) -> str:
    return hashlib.sha256(seed.encode()).hexdigest()[:length]


def dispute_id(user_id: str, transaction_id: str) -> str:
    return f"dsp_{digest_id(f'dispute:{user_id}:{transaction_id}', 12)}"


def transaction_id(user: str, card: str, merchant: str, amount: float, category: str) -> str:
    seed = ":".join(["transaction", user, card, merchant, f"{amount:.2f}", category])
    return f"txn_{digest_id(seed, 12)}"


def parsed_arguments(arguments: str) -> Any:
    """Arguments of a tool within a tool; all numbers become floats, so that 33 and 33.0 agree."""
    try:
        return json.loads(arguments, parse_int=float)
    except json.JSONDecodeError as error:
        raise Answer(f"Error: Invalid JSON in arguments: {error}") from None


def executed(tool: str, arguments: Mapping[str, Any] | None = None) -> str:
    """The two lines in which some results repeat the call."""
    shown = json.dumps(arguments, indent=2) if arguments else "(no arguments)"
    return f"Executed: {tool}\nArguments: {shown}"


def bullets(*lines: str) -> str:
    return "\n".join(f"  - {line}" for line in lines)


def listed(table: str, found: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Records of a table as text."""
    if not found:
        return f"No records found in '{table}'."
    lines = [f"Found {len(found)} record(s) in '{table}':\n"]
    for position, (key, record) in enumerate(found, 1):
        lines.append(f"{position}. Record ID: {key}")
        lines += [f"   {field}: {value}" for field, value in record.items()]
        lines.append("")
    return "\n".join(lines)


def history(tool: str, done: str, subject: str, records: str, none: str) -> str:
    """The form of most reading tools: what was done, then the records or that none are."""
    shown = f"\n{none}" if "No records found" in records else records
    return f"{done}\n\nExecuted: {tool}\n{subject}:\n{shown}"


class Bank(Toolkit):
    """A toolkit over the books."""

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return super().call(name, arguments)
        except Answer as answer:
            return str(answer)

    @classmethod
    def load(cls, raw: Any) -> Database:
        """Every table with its records and notes; what is no table is left out."""
        db = {}
        for name in TABLES:
            table = raw.get(name) or {}
            db[name] = {"data": dict(table.get("data") or {}), "notes": table.get("notes") or ""}
        return db

    def table(self, name: str) -> Any:
        return self.db[name]["data"]

    def _found(self, table: str, key: str, label: str) -> Any:
        need(key in self.table(table), f"Error: {label} '{key}' not found.")
        return self.table(table)[key]

    def _active(self, account: dict[str, Any], account_id: str, label: str = "Account") -> None:
        active = account.get("status") in ("ACTIVE", "OPEN")
        need(active, f"Error: {label} '{account_id}' is not active.")

    def _add(self, table: str, key: str, record: Mapping[str, Any]) -> bool:
        """Enter a record unless its key is taken."""
        if key in self.table(table):
            return False
        self.table(table)[key] = dict(record)
        return True

    def _query(self, table: str, field: str, value: Any) -> str:
        """Records whose field has the value, as text; values are put into JSON as they are."""
        return self._listed(table, f'{{"{field}": "{value}"}}')

    def _listed(self, table: str, constraints: str = "{}") -> str:
        try:
            wanted = json.loads(constraints)
        except json.JSONDecodeError as error:
            return f"Error: Invalid JSON: {error}"
        found = [
            (key, record)
            for key, record in self.table(table).items()
            if all(record.get(field) == value for field, value in wanted.items())
        ]
        return listed(table, found)

    def _is_listed(self, table: str, field: str, value: Any) -> bool:
        return "No records found" not in self._query(table, field, value)

    def _history(
        self, tool: str, done: str, subject: str, table: str, none: str, given: Mapping[str, Any]
    ) -> str:
        """The records of a table that have the value that is given."""
        ((field, value),) = given.items()
        need(value, f"Error: Missing required parameter: {field}")
        return history(tool, done, subject.format(value), self._query(table, field, value), none)
