"""tau2-bench's bank from the customer's side of the counter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from chimera.eval.benchmarks._tau_bench.bank import (
    TODAY,
    Answer,
    Bank,
    balance_of,
    bullets,
    digest_id,
    dispute_id,
    executed,
    need,
    number,
    parsed_arguments,
    transaction_id,
)
from chimera.eval.benchmarks._tau_bench.kernel import tool

#: Percent of cash back, by card and category of the purchase.
REWARDS: Mapping[str, Mapping[str, float]] = {
    "Bronze Rewards Card": {"default": 1.0},
    "Silver Rewards Card": {"Travel": 4.0, "Software": 4.0, "default": 1.0},
    "Gold Rewards Card": {"default": 2.5},
    "Platinum Rewards Card": {"default": 10.0},
    "Business Bronze Rewards Card": {"default": 1.0},
    "Business Silver Rewards Card": {"Travel": 10.0, "Software": 10.0, "default": 1.0},
    "Green Rewards Card": {"Sustainable": 3.0, "default": 1.0},
    "Business Gold Rewards Card": {"Operations": 2.5, "default": 1.0},
    "Business Platinum Rewards Card": {
        "Travel": 4.0,
        "Software": 4.0,
        "Media": 4.0,
        "default": 1.5,
    },
    "Silver Zoom Card": {"Transportation": 3.0, "default": 1.0},
    "Diamond Elite Card": {"default": 5.0},
    "EcoCard": {"Green": 5.0, "default": 1.0},
    "Crypto-Cash Back": {"default": 2.0},
}


class KnowledgeUserTools(Bank):
    """The customer's side."""

    official = "KnowledgeUserTools"
    arguments: ClassVar[Mapping[str, str]] = {
        "user_id": "Your customer id.",
        "account_type": "The account you refer somebody to.",
        "card_type": "The credit card you apply for.",
        "customer_name": "Your full legal name.",
        "annual_income": "Your yearly income in dollars.",
        "rho_bank_subscription": "Whether you have Rho-Bank+.",
        "credit_card_type": "The credit card you paid with.",
        "merchant_name": "Where you bought.",
        "amount": "What you paid in dollars.",
        "category": "Kind of purchase, e.g. 'Groceries' or 'Travel'.",
        "discoverable_tool_name": "Name of the tool the agent gave you.",
        "arguments": "Arguments of that tool as a JSON object in a string.",
    }

    def _use_given(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Refuse a tool the agent has not given; note the use of one it has."""
        need(
            self._is_listed("user_discoverable_tools", "tool_name", name),
            f"Error: Tool '{name}' has not been given to you by the agent. "
            "The agent must first use `give_discoverable_user_tool` to give this tool to you.",
        )
        text = json.dumps(dict(arguments), sort_keys=True)
        key = digest_id(f"user_discoverable_tool_call:{name}:{text}")
        used = {"tool_name": name, "arguments": dict(arguments), "called_at": TODAY}
        self._add("user_discoverable_tool_calls", key, {**used, "status": "CALLED"})

    @tool("write", discoverable=True)
    def submit_cash_back_dispute_0589(self, user_id: str, transaction_id: str) -> str:
        name = "submit_cash_back_dispute_0589"
        given = {"user_id": user_id, "transaction_id": transaction_id}
        self._use_given(name, given)
        key = dispute_id(user_id, transaction_id)
        settings = self.table("task_config").get("dispute_settings", {})
        record = {"dispute_id": key, **given, "submitted_at": TODAY, "status": "SUBMITTED"}
        status = "Status: SUBMITTED - Your dispute has been queued for review."
        if settings.get("auto_resolve_disputes", False):
            record |= {"status": "RESOLVED", "resolution": "APPROVED"}
            status = (
                "Status: RESOLVED - The dispute has been reviewed and approved. The transaction "
                "rewards need to be updated."
            )
        entered = self._add("cash_back_disputes", key, record)
        return (
            "Cash back dispute submitted successfully. Your case has been queued for review.\n\n"
            f"{executed(name, given)}\n"
        ) + (
            f"Dispute ID: {key}\n{status}"
            if entered
            else "Note: Dispute may have already been submitted for this transaction."
        )

    @tool("write", discoverable=True)
    def get_referral_link(self, user_id: str, card_name: str) -> str:
        given = {"user_id": user_id, "card_name": card_name}
        self._use_given("get_referral_link", given)
        key = digest_id(f"referral_link:{user_id}:{card_name}")
        entered = self._add("referrals", key, _referral(key, user_id, card_name))
        return (
            "Referral link generated successfully. Share this link with the person you want to "
            f"refer.\n\n{executed('get_referral_link', given)}\n"
        ) + (
            f"Referral ID: {key}\nReferral link: https://rhobank.com/refer/{key}"
            if entered
            else "Note: A referral link for this card may have already been generated."
        )

    @tool("read", discoverable=True)
    def get_card_last_4_digits(self, credit_card_account_id: str) -> str:
        given = {"credit_card_account_id": credit_card_account_id}
        self._use_given("get_card_last_4_digits", given)
        need(
            self._is_listed("credit_card_accounts", "account_id", credit_card_account_id),
            f"Error: Credit card account '{credit_card_account_id}' not found.",
        )
        digits = [c for c in digest_id(f"card_last4:{credit_card_account_id}", 64) if c.isdigit()]
        return (
            "Card information retrieved successfully.\n\n"
            f"{executed('get_card_last_4_digits', given)}\n"
            f"Last 4 digits of card: {''.join(digits[:4]).ljust(4, '0')}"
        )

    @tool("write", discoverable=True)
    def deposit_check_3847(self, account_id: str, check_amount: float) -> str:
        given = {"account_id": account_id, "check_amount": check_amount}
        self._use_given("deposit_check_3847", given)
        refusal = f"Error: Invalid check amount '{check_amount}'. Must be a number."
        amount = number(check_amount, refusal)
        need(amount > 0, "Error: Check amount must be positive.")
        account = self._found("accounts", account_id, "Account")
        self._active(account, account_id)
        before = balance_of(account)
        account["current_holdings"] = f"${before + amount:.2f}"
        shown = bullets(
            f"Account: {account_id}",
            f"Check Amount: ${amount:.2f}",
            f"Previous Balance: ${before:.2f}",
            f"New Balance: ${before + amount:.2f}",
        )
        return (
            "Check deposited successfully. Funds will be available according to your account's "
            f"deposit policy.\n\n{executed('deposit_check_3847', given)}\n"
            f"Check deposit processed!\n{shown}"
        )

    @tool("write")
    def apply_for_credit_card(
        self,
        card_type: str,
        customer_name: str,
        annual_income: float,
        rho_bank_subscription: bool = False,
    ) -> str:
        """Apply for a credit card."""
        refusal = f"Error: Invalid card_type '{card_type}'. Must be one of: {sorted(REWARDS)}"
        need(card_type in REWARDS, refusal)
        income = number(annual_income, "Error: Invalid annual_income. Must be a number.")
        key = digest_id(f"credit_card:{card_type}:{customer_name}:{income}:{rho_bank_subscription}")
        record = {
            "application_id": key,
            "card_type": card_type,
            "customer_name": customer_name,
            "annual_income": income,
            "rho_bank_subscription": rho_bank_subscription,
            "status": "PENDING",
            "date": TODAY,
        }
        refusal = f"Failed to submit application: Record ID '{key}' may already exist."
        need(self._add("credit_card_applications", key, record), refusal)
        return (
            "Credit card application submitted:\nYour application has been successfully submitted. "
            "You will receive a decision within 5-7 business days via email."
        )

    @tool("write")
    def submit_referral(self, user_id: str, account_type: str) -> str:
        """Refer somebody to open an account."""
        key = digest_id(f"referral:{user_id}:{account_type}")
        refusal = f"Failed to submit referral: Record ID '{key}' may already exist."
        need(self._add("referrals", key, _referral(key, user_id, account_type)), refusal)
        shown = bullets(
            f"Referral ID: {key}",
            f"Referrer ID: {user_id}",
            f"Account Type: {account_type}",
            "Status: NO_PROGRESS",
            f"Date: {TODAY}",
        )
        return (
            f"Referral request submitted successfully!\n{shown}\n\n"
            "Share your referral ID with the person you're referring. "
            "They will need to use this when applying for their account."
        )

    @tool("write")
    def call_discoverable_user_tool(
        self, discoverable_tool_name: str, arguments: str = "{}"
    ) -> str:
        """Use a tool the agent has given you, as it told you to."""
        known = self.tools.get(discoverable_tool_name)
        if known is None or not known.discoverable:
            raise Answer(f"Error: Unknown discoverable tool '{discoverable_tool_name}'.")
        given = parsed_arguments(arguments)
        for name, parameter in known.signature.parameters.items():
            lacking = parameter.default is parameter.empty and name not in given
            need(not lacking, f"Error: Missing required parameter: {name}")
        for name in given:
            need(name in known.signature.parameters, f"Error: Unexpected parameter: {name}")
        try:
            return str(getattr(self, discoverable_tool_name)(**given))
        except TypeError as error:
            return f"Error: Invalid arguments for tool '{discoverable_tool_name}': {error}"

    @tool("read")
    def list_discoverable_user_tools(self) -> str:
        """List the tools the agent has given you."""
        return f"Tools given to you by the agent:\n{self._listed('user_discoverable_tools')}"

    @tool("write")
    def request_human_agent_transfer(self) -> str:
        """Ask for a human agent."""
        count = self._listed("human_transfer_requests").count("request_id") + 1
        key = f"transfer_request_{count}"
        asked = {"request_id": key, "request_number": count, "requested_at": TODAY}
        self._add("human_transfer_requests", key, {**asked, "status": "PENDING"})
        return f"Transfer request #{count} submitted.\nThe agent will process your request."

    @tool("write")
    def submit_transaction(
        self, user_id: str, credit_card_type: str, merchant_name: str, amount: float, category: str
    ) -> str:
        """Pay with a credit card."""
        need(
            credit_card_type in REWARDS,
            f"Error: Unknown credit card type '{credit_card_type}'. "
            f"Available types: {list(REWARDS)}",
        )
        amount = number(amount, f"Error: Invalid amount '{amount}'. Must be a number.")
        key = transaction_id(user_id, credit_card_type, merchant_name, amount, category)
        rates = REWARDS[credit_card_type]
        rate = rates.get(category, rates["default"])
        points = int(amount * rate)
        record = {
            "transaction_id": key,
            "user_id": user_id,
            "credit_card_type": credit_card_type,
            "merchant_name": merchant_name,
            "transaction_amount": f"${amount:.2f}",
            "transaction_date": TODAY,
            "category": category,
            "status": "COMPLETED",
            "rewards_earned": f"{points} points",
        }
        refusal = f"Failed to submit transaction: Record ID '{key}' may already exist."
        need(self._add("credit_card_transaction_history", key, record), refusal)
        shown = bullets(
            f"Transaction ID: {key}",
            f"User ID: {user_id}",
            f"Card Type: {credit_card_type}",
            f"Merchant: {merchant_name}",
            f"Amount: ${amount:.2f}",
            f"Category: {category}",
            f"Date: {TODAY}",
            f"Rewards Earned: {points} points ({rate}% cashback rate)",
        )
        return f"Transaction submitted successfully!\n{shown}\n"


def _referral(key: str, user_id: str, account_type: str) -> dict[str, Any]:
    return {
        "referral_id": key,
        "referrer_id": user_id,
        "referred_account_type": account_type,
        "referral_status": "NO_PROGRESS",
        "date": TODAY,
    }
