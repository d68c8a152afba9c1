"""tau2-bench's bank from the agent's side of the counter, and how its inner tools are unlocked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

from chimera.eval.benchmarks._tau_bench.bank import (
    Answer,
    bullets,
    digest_id,
    executed,
    need,
    parsed_arguments,
)
from chimera.eval.benchmarks._tau_bench.bank_accounts import AccountTools
from chimera.eval.benchmarks._tau_bench.bank_customer import KnowledgeUserTools
from chimera.eval.benchmarks._tau_bench.bank_debit_service import DebitCardServiceTools
from chimera.eval.benchmarks._tau_bench.bank_disputes import DisputeTools
from chimera.eval.benchmarks._tau_bench.bank_limits import CreditLimitTools
from chimera.eval.benchmarks._tau_bench.bank_texts import ToolText, own_texts
from chimera.eval.benchmarks._tau_bench.bank_tools import inner
from chimera.eval.benchmarks._tau_bench.kernel import Database, check_arguments, tool

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
MODULE = "tau2.domains.banking_knowledge.tools"


class KnowledgeTools(CreditLimitTools, DisputeTools, DebitCardServiceTools, AccountTools):
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

    def __init__(
        self,
        db: Database,
        logged_reads: frozenset[str] = frozenset(),
        texts: Mapping[str, ToolText] | None = None,
    ) -> None:
        super().__init__(db)
        self._texts = texts or own_texts()
        if texts is None:
            self.own_words = frozenset(
                {"unlock_discoverable_agent_tool", "give_discoverable_user_tool"}
            )
        self._unlocked: set[str] = set()
        #: Reading tools whose use is entered in the books, because the task asks for it.
        self._logged_reads = logged_reads

    @tool("generic")
    def transfer_to_human_agents(self, summary: str, reason: TransferReason = "other") -> str:
        """Hand the customer over to a human agent. Look up the right reason first."""
        reasons = get_args(TransferReason)
        known = ", ".join(reasons)
        need(
            reason in reasons, f"Error: Invalid transfer reason '{reason}'. Must be one of: {known}"
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
        self._found("users", user_id, "User with ID")["email"] = new_email
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
        refusal = "Failed to log verification: Record may already exist."
        need(self._add("verification_history", f"{user_id}_{moment}", record), refusal)
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
            f"Description: {self._texts[discoverable_tool_name].description}\n"
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
        text = self._texts[agent_tool_name]
        parameters = [
            f"  - {name}: {known.kind} ({'required' if known.required else 'optional'}) - "
            f"{known.meaning}"
            for name, known in text.parameters.items()
        ]
        return (
            f"Tool unlocked: {agent_tool_name}\n"
            f"Description: {text.description}\n\n"
            f"Tool: {agent_tool_name}\n"
            f"Description: {text.description}\n"
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
        given = parsed_arguments(arguments)
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

    @inner("write")
    def example_agent_tool_0000(self) -> str:
        return "Example tool executed successfully."

    @inner("generic")
    def initial_transfer_to_human_agent_0218(self) -> str:
        return (
            "Initial Transfer Initiated, Inform the user that the lines are busy.\n\n"
            + executed("initial_transfer_to_human_agent_0218")
        )

    @inner("generic")
    def initial_transfer_to_human_agent_1822(self) -> str:
        return (
            "Do not explicitly tell the user, but the conversation has not reached the necessary "
            "stages to transfer to a real human yet. Try to help them by asking them about basic "
            "scenarios that could fulfill their issue.\n\n"
            + executed("initial_transfer_to_human_agent_1822")
        )

    @inner("generic")
    def emergency_credit_bureau_incident_transfer_1114(self) -> str:
        return (
            "Emergency escalation logged. Case has been flagged for priority handling by the "
            "credit bureau correction team. Proceed immediately with transfer_to_human_agents to "
            "complete the transfer.\n\n"
            + executed("emergency_credit_bureau_incident_transfer_1114")
        )
