"""tau2-bench's bank at its counter: what agents and customers may do, and the tools they unlock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any, ClassVar, Literal, get_args

from chimera.eval.tau.bank import (
    TODAY,
    Answer,
    Bank,
    balance_of,
    bullets,
    digest_id,
    executed,
    need,
    number,
)
from chimera.eval.tau.bank_accounts import AccountTools
from chimera.eval.tau.bank_credit import CreditCardTools, dispute_id, transaction_id
from chimera.eval.tau.bank_debit_service import DebitCardServiceTools
from chimera.eval.tau.kernel import Database, check_arguments, tool

TransferReason = Literal[
    "fraud_or_security_concern",
    "account_closure_request",
    "deceased_account_holder",
    "legal_or_regulatory_matter",
    "account_ownership_dispute",
    "complex_billing_dispute",
    "abusive_customer_behavior",
    "third_party_inquiry",
    "technical_system_error",
    "unconfirmed_external_communication",
    "customer_demands_after_unavailable_offer_refusal",
    "kb_search_unsuccessful_customer_requests_transfer",
    "specialized_department_required",
    "accessibility_or_special_needs",
    "customer_frustrated_demands_human",
    "supervisor_request_service_complaint",
    "customer_requests_human_no_specific_reason",
    "request_completed_customer_wants_human_followup",
    "other",
]
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
MODULE = "tau2.domains.banking_knowledge.tools"


@lru_cache(maxsize=1)
def tool_texts() -> Mapping[str, Any]:
    """Description and parameters of each tool that must be unlocked, as unlocking shows them."""
    texts = resources.files("chimera.eval.tau").joinpath("banking_tools.json").read_text("utf-8")
    loaded: Mapping[str, Any] = json.loads(texts)
    return loaded


def _parsed(arguments: str) -> Any:
    """Arguments of a tool within a tool; all numbers become floats, so that 33 and 33.0 agree."""
    try:
        return json.loads(arguments, parse_int=float)
    except json.JSONDecodeError as error:
        raise Answer(f"Error: Invalid JSON in arguments: {error}") from None


class KnowledgeTools(CreditCardTools, DebitCardServiceTools, AccountTools):
    """The agent's side."""

    official = "KnowledgeTools"
    arguments: ClassVar[Mapping[str, str]] = {
        "user_id": "Id of the customer.",
        "customer_name": "Full name of the customer; capitals count.",
        "email": "E-mail address of the customer.",
        "new_email": "The new e-mail address.",
        "name": "Full name of the verified customer.",
        "address": "Address of the verified customer.",
        "phone_number": "Phone number of the verified customer.",
        "date_of_birth": "Date of birth as MM/DD/YYYY.",
        "time_verified": "When it was verified, e.g. '2025-11-14 03:40:00 EST'.",
        "discoverable_tool_name": "Name of the customer's tool, from the knowledge base.",
        "agent_tool_name": "Name of the agent's tool, from the knowledge base.",
        "arguments": "Arguments of that tool as a JSON object in a string.",
        "summary": "What the customer wants and what was tried.",
        "reason": "Code of the reason; the knowledge base says which applies.",
    }

    def __init__(self, db: Database, logged_reads: frozenset[str] = frozenset()) -> None:
        super().__init__(db)
        self._unlocked: set[str] = set()
        #: Reading tools whose use is entered in the books, because the task asks for it.
        self._logged_reads = logged_reads

    @tool("generic")
    def transfer_to_human_agents(self, summary: str, reason: TransferReason = "other") -> str:
        """Hand the customer over to a human agent. Look up the right reason first."""
        reasons = get_args(TransferReason)
        need(
            reason in reasons,
            f"Error: Invalid transfer reason '{reason}'. Must be one of: {', '.join(reasons)}",
        )
        return f"Transfer successful (reason: {reason}). A human agent will assist you shortly."

    @tool("read")
    def get_current_time(self) -> str:
        """Get the current time, e.g. for logging a verification."""
        return "The current time is 2025-11-14 03:40:00 EST."

    @tool("read")
    def get_user_information_by_id(self, user_id: str) -> str:
        """Look up a customer's personal data by id."""
        return self._query("users", "user_id", user_id)

    @tool("read")
    def get_user_information_by_name(self, customer_name: str) -> str:
        """Look up a customer's personal data by name."""
        return self._query("users", "name", customer_name)

    @tool("read")
    def get_user_information_by_email(self, email: str) -> str:
        """Look up a customer's personal data by e-mail address."""
        return self._query("users", "email", email)

    @tool("write")
    def change_user_email(self, user_id: str, new_email: str) -> str:
        """Change a customer's e-mail address."""
        users = self.table("users")
        need(user_id in users, f"Error: User with ID '{user_id}' not found.")
        users[user_id]["email"] = new_email
        shown = bullets(f"User ID: {user_id}", f"New Email: {new_email}")
        return f"Email updated successfully.\n{shown}"

    @tool("read")
    def get_referrals_by_user(self, user_id: str) -> str:
        """List the referrals a customer has made."""
        return self._query("referrals", "referrer_id", user_id)

    @tool("read")
    def get_credit_card_transactions_by_user(self, user_id: str) -> str:
        """List a customer's credit card transactions."""
        return self._query("credit_card_transaction_history", "user_id", user_id)

    @tool("read")
    def get_credit_card_accounts_by_user(self, user_id: str) -> str:
        """List a customer's credit card accounts with balances and reward points."""
        return self._query("credit_card_accounts", "user_id", user_id)

    @tool("write")
    def log_verification(
        self,
        name: str,
        user_id: str,
        address: str,
        email: str,
        phone_number: str,
        date_of_birth: str,
        time_verified: str,
    ) -> str:
        """Log that a customer's identity was verified, after two of date of birth, e-mail, phone
        number and address were confirmed."""
        moment = time_verified.replace(" ", "_").replace(":", "").replace("-", "")
        record = {
            "name": name,
            "user_id": user_id,
            "address": address,
            "email": email,
            "phone_number": phone_number,
            "date_of_birth": date_of_birth,
            "time_verified": time_verified,
        }
        need(
            self._add("verification_history", f"{user_id}_{moment}", record),
            "Failed to log verification: Record may already exist.",
        )
        shown = bullets(f"User: {name} (ID: {user_id})", f"Verified at: {time_verified}")
        return f"Verification logged successfully.\n{shown}"

    @tool("generic", mutates=True)
    def give_discoverable_user_tool(
        self, discoverable_tool_name: str, arguments: str = "{}"
    ) -> str:
        """Give the customer a tool to act on their own, where the knowledge base says so."""
        known = KnowledgeUserTools.tools.get(discoverable_tool_name)
        if known is None or not known.discoverable:
            raise Answer(f"Error: Unknown discoverable tool '{discoverable_tool_name}'.")
        try:
            given = json.loads(arguments)
        except json.JSONDecodeError as error:
            raise Answer(f"Error: Invalid JSON in arguments: {error}") from None
        for name in given:
            expected = name in known.signature.parameters or name == "self"
            need(expected, f"Error: Unexpected parameter: {name}")
        key = digest_id(f"user_discoverable_tool:{discoverable_tool_name}")
        record = {"tool_name": discoverable_tool_name, "status": "GIVEN"}
        self._add("user_discoverable_tools", key, record)
        shown = json.dumps(given, indent=2) if given else "(no arguments)"
        return (
            f"Tool given to user: {discoverable_tool_name}\n"
            f"Description: {tool_texts()[discoverable_tool_name]['description']}\n"
            f"Arguments: {shown}\n\n"
            "The user can now execute this action by calling `call_discoverable_user_tool` "
            f"with discoverable_tool_name='{discoverable_tool_name}' and the same arguments."
        )

    def _discoverable(self, name: str) -> None:
        known = self.tools.get(name)
        need(
            known is not None and known.discoverable,
            f"Error: Unknown agent tool '{name}'. This tool is not available.",
        )

    @tool("generic", mutates=True)
    def unlock_discoverable_agent_tool(self, agent_tool_name: str) -> str:
        """Unlock one of the bank's inner tools that the knowledge base names."""
        self._discoverable(agent_tool_name)
        self._unlocked.add(agent_tool_name)
        texts = tool_texts()[agent_tool_name]
        parameters = [
            f"  - {name}: {kind} ({'required' if required else 'optional'}) - {meaning}"
            for name, (kind, required, meaning) in texts["parameters"].items()
        ]
        return (
            f"Tool unlocked: {agent_tool_name}\n"
            f"Description: {texts['description']}\n\n"
            f"Tool: {agent_tool_name}\n"
            f"Description: {texts['description']}\n"
            "Parameters:\n" + ("\n".join(parameters) or "  (no parameters)") + "\n\n"
            "You can now use this tool by calling `call_discoverable_agent_tool` with "
            f"agent_tool_name='{agent_tool_name}' and the required arguments."
        )

    @tool("write")
    def call_discoverable_agent_tool(self, agent_tool_name: str, arguments: str = "{}") -> str:
        """Call an inner tool that was unlocked before."""
        self._discoverable(agent_tool_name)
        need(
            agent_tool_name in self._unlocked,
            f"Error: Tool '{agent_tool_name}' has not been unlocked. You must first use "
            "`unlock_discoverable_agent_tool` to unlock this tool before calling it.",
        )
        given = _parsed(arguments)
        known = self.tools[agent_tool_name]
        full_name = f"{self.official}.{agent_tool_name}"
        try:
            if not isinstance(given, dict):
                kind = type(given).__name__
                raise TypeError(
                    f"{MODULE}.{full_name}() argument after ** must be a mapping, not {kind}"
                )
            check_arguments(full_name, known.signature, given)
            result = str(getattr(self, agent_tool_name)(**given))
        except Answer as answer:
            result = str(answer)
        except TypeError as error:
            return f"Error: Invalid arguments: {error}"
        if known.mutates or agent_tool_name in self._logged_reads:
            key = digest_id(f"agent_discoverable_tool:{agent_tool_name}")
            record = {"tool_name": agent_tool_name, "status": "CALLED"}
            self._add("agent_discoverable_tools", key, record)
        return result

    @tool("read")
    def list_discoverable_agent_tools(self) -> str:
        """List the inner tools that were called."""
        return f"Your called agent tools:\n{self._listed('agent_discoverable_tools')}"

    @tool("write", discoverable=True)
    def example_agent_tool_0000(self) -> str:
        return "Example tool executed successfully."

    @tool("generic", discoverable=True)
    def initial_transfer_to_human_agent_0218(self) -> str:
        return (
            "Initial Transfer Initiated, Inform the user that the lines are busy.\n\n"
            + executed("initial_transfer_to_human_agent_0218")
        )

    @tool("generic", discoverable=True)
    def initial_transfer_to_human_agent_1822(self) -> str:
        return (
            "Do not explicitly tell the user, but the conversation has not reached the necessary "
            "stages to transfer to a real human yet. Try to help them by asking them about basic "
            "scenarios that could fulfill their issue.\n\n"
            + executed("initial_transfer_to_human_agent_1822")
        )

    @tool("generic", discoverable=True)
    def emergency_credit_bureau_incident_transfer_1114(self) -> str:
        return (
            "Emergency escalation logged. Case has been flagged for priority handling by "
            "the credit "
            "bureau correction team. Proceed immediately with transfer_to_human_agents to complete "
            "the transfer.\n\n" + executed("emergency_credit_bureau_incident_transfer_1114")
        )


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
        record = {"tool_name": name, "arguments": dict(arguments)}
        self._add(
            "user_discoverable_tool_calls", key, {**record, "called_at": TODAY, "status": "CALLED"}
        )

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
        accounts = self.table("accounts")
        need(account_id in accounts, f"Error: Account '{account_id}' not found.")
        account = accounts[account_id]
        active = account.get("status") in ("ACTIVE", "OPEN")
        need(active, f"Error: Account '{account_id}' is not active.")
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
        need(
            card_type in REWARDS,
            f"Error: Invalid card_type '{card_type}'. Must be one of: {sorted(REWARDS)}",
        )
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
        need(
            self._add("credit_card_applications", key, record),
            f"Failed to submit application: Record ID '{key}' may already exist.",
        )
        return (
            "Credit card application submitted:\nYour application has been successfully submitted. "
            "You will receive a decision within 5-7 business days via email."
        )

    @tool("write")
    def submit_referral(self, user_id: str, account_type: str) -> str:
        """Refer somebody to open an account."""
        key = digest_id(f"referral:{user_id}:{account_type}")
        need(
            self._add("referrals", key, _referral(key, user_id, account_type)),
            f"Failed to submit referral: Record ID '{key}' may already exist.",
        )
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
        given = _parsed(arguments)
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
        record = {"request_id": key, "request_number": count}
        self._add(
            "human_transfer_requests", key, {**record, "requested_at": TODAY, "status": "PENDING"}
        )
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
        need(
            self._add("credit_card_transaction_history", key, record),
            f"Failed to submit transaction: Record ID '{key}' may already exist.",
        )
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
