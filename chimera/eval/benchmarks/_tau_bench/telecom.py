"""The carrier's side of tau2-bench's telecom domain: customers, lines, bills, plans."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from chimera.eval.benchmarks._tau_bench.counter import CounterTools
from chimera.eval.benchmarks._tau_bench.kernel import Record, Toolkit, model, tool

TODAY = datetime.date(2025, 2, 25)
LAST_MONTH = (datetime.date(2025, 1, 1), datetime.date(2025, 1, 31))
NEXT_MONTH = (datetime.date(2025, 3, 1), datetime.date(2025, 3, 31))
DAYS_TO_PAY = datetime.timedelta(days=14)
CYCLE_END = datetime.date(2025, 2, 28)

_date = datetime.date | None
_datetime = datetime.datetime | None
_address = model("Address", street=str, city=str, state=str, zip_code=str)
_plan = model(
    "Plan",
    plan_id=str,
    name=str,
    data_limit_gb=float,
    price_per_month=float,
    data_refueling_price_per_gb=float,
)
_device = model(
    "Device",
    device_id=str,
    device_type=Literal["phone", "router", "tablet", "watch", "other"],
    model=str,
    imei=(str | None, None),
    is_esim_capable=bool,
    activated=(bool, False),
    activation_date=(_datetime, None),
    last_esim_transfer_date=(_datetime, None),
)
_line = model(
    "Line",
    line_id=str,
    phone_number=str,
    status=(Literal["Active", "Suspended", "Pending Activation", "Closed"], "Pending Activation"),
    plan_id=str,
    device_id=(str | None, None),
    data_used_gb=(float, 0.0),
    data_refueling_gb=(float, 0.0),
    roaming_enabled=(bool, False),
    contract_end_date=(_date, None),
    last_plan_change_date=(_date, None),
    last_sim_replacement_date=(_date, None),
    suspension_start_date=(_date, None),
)
_line_item = model("LineItem", description=str, amount=float, date=datetime.date, item_type=str)
_bill = model(
    "Bill",
    bill_id=str,
    customer_id=str,
    period_start=datetime.date,
    period_end=datetime.date,
    issue_date=datetime.date,
    total_due=float,
    due_date=datetime.date,
    line_items=(list[_line_item], []),  # type: ignore[valid-type]
    status=(Literal["Draft", "Issued", "Awaiting Payment", "Paid", "Overdue", "Disputed"], "Draft"),
)
_payment_method = model(
    "PaymentMethod",
    method_type=Literal["Credit Card", "Debit Card", "PayPal"],
    account_number_last_4=str,
    expiration_date=str,
)
_customer = model(
    "Customer",
    customer_id=str,
    full_name=str,
    date_of_birth=str,
    email=str,
    phone_number=str,
    address=_address,
    account_status=(
        Literal["Active", "Suspended", "Pending Verification", "Closed"],
        "Pending Verification",
    ),
    payment_methods=(list[_payment_method], []),  # type: ignore[valid-type]
    line_ids=(list[str], []),
    bill_ids=(list[str], []),
    created_at=(datetime.datetime, datetime.date(2025, 1, 1)),
    last_extension_date=(_date, None),
    goodwill_credit_used_this_year=(float, 0.0),
)
_database = model(
    "TelecomDB",
    plans=(list[_plan], []),  # type: ignore[valid-type]
    customers=(list[_customer], []),  # type: ignore[valid-type]
    lines=(list[_line], []),  # type: ignore[valid-type]
    bills=(list[_bill], []),  # type: ignore[valid-type]
    devices=(list[_device], []),  # type: ignore[valid-type]
)


def _item(description: str, amount: float) -> dict[str, Any]:
    kind = "Credit" if amount < 0 else "Charge"
    return {"description": description, "amount": amount, "date": str(TODAY), "item_type": kind}


def _new_bill(
    bill_id: str, customer_id: str, period: tuple[datetime.date, datetime.date], status: str
) -> dict[str, Any]:
    start, end = period
    return {
        "bill_id": bill_id,
        "customer_id": customer_id,
        "period_start": str(start),
        "period_end": str(end),
        "issue_date": str(start),
        "total_due": 0.0,
        "due_date": str(start + DAYS_TO_PAY),
        "line_items": [],
        "status": status,
    }


class TelecomTools(CounterTools):
    official = "TelecomTools"
    database = _database
    arguments: ClassVar[Mapping[str, str]] = {
        "customer_id": "Id of the customer, e.g. 'C1001'.",
        "line_id": "Id of the line, e.g. 'L1001'; it must belong to the customer.",
        "bill_id": "Id of the bill, e.g. 'B1001'.",
        "id": "Id of a customer (C…), line (L…), device (D…), bill (B…) or plan (P…).",
        "phone_number": "Phone number of a customer or of one of their lines.",
        "full_name": "Full name of the customer.",
        "dob": "Date of birth as YYYY-MM-DD.",
        "reason": "Why the line is suspended.",
        "limit": "How many bills at most.",
        "gb_amount": "Gigabytes to add.",
    }

    def _by_id(self, kind: str, value: str) -> Any:
        """The customer, line, device, bill or plan that has an id."""
        for entry in self.db[f"{kind}s"]:
            if entry[f"{kind}_id"] == value:
                return entry
        raise ValueError(f"{kind.capitalize()} with ID {value} not found")

    def _customer(self, customer_id: str) -> Any:
        return self._by_id("customer", customer_id)

    def _plan_of(self, line: dict[str, Any]) -> Any:
        return self._by_id("plan", line["plan_id"])

    def _line_of(self, customer_id: str, line_id: str) -> Any:
        if line_id not in self._customer(customer_id)["line_ids"]:
            raise ValueError(f"Line {line_id} not found for customer {customer_id}")
        return self._by_id("line", line_id)

    def _bills_of(self, customer: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._by_id("bill", bill_id) for bill_id in customer["bill_ids"]]

    def _bills_with(self, customer: dict[str, Any], status: str) -> list[dict[str, Any]]:
        return [bill for bill in self._bills_of(customer) if bill["status"] == status]

    def _customer_by_phone(self, phone_number: str) -> Any:
        for customer in self.db["customers"]:
            lines = [self._by_id("line", line_id) for line_id in customer["line_ids"]]
            if phone_number in [owner["phone_number"] for owner in (customer, *lines)]:
                return customer
        raise ValueError(f"Customer with phone number {phone_number} not found")

    def _charge(self, customer_id: str, amount: float, description: str) -> None:
        """Put a charge on the customer's draft bill, opening one for the next month if needed."""
        customer = self._customer(customer_id)
        drafts = self._bills_with(customer, "Draft")
        if drafts:
            bill = drafts[0]
        else:
            # Officially a random id; a digest keeps a replay equal to what it replays.
            seed = f"{customer_id}:{len(self.db['bills'])}"
            bill_id = "B" + hashlib.sha256(seed.encode()).hexdigest()[:8]
            bill = _new_bill(bill_id, customer_id, NEXT_MONTH, "Draft")
            self.db["bills"].append(bill)
            customer["bill_ids"].append(bill_id)
        bill["line_items"].append(_item(description, amount))
        bill["total_due"] += amount

    @tool("read")
    def get_customer_by_phone(self, phone_number: str) -> Record:
        """Find the customer a phone number belongs to."""
        return Record(self._customer_by_phone(phone_number))

    @tool("read")
    def get_customer_by_id(self, customer_id: str) -> Record:
        """Look up a customer."""
        return Record(self._customer(customer_id))

    @tool("read")
    def get_customer_by_name(self, full_name: str, dob: str) -> Sequence[Record]:
        """Find customers by full name and date of birth."""
        return [
            Record(customer)
            for customer in self.db["customers"]
            if customer["full_name"].lower() == full_name.lower()
            and customer["date_of_birth"] == dob
        ]

    @tool("read")
    def get_details_by_id(self, id: str) -> Record:
        """Look up anything that has an id: a customer, line, device, bill or plan."""
        for kind in ("line", "device", "bill", "customer", "plan"):
            if id.startswith(kind[0].upper()):
                return Record(self._by_id(kind, id))
        raise ValueError(f"Unknown ID format or type: {id}")

    @tool("write")
    def suspend_line(self, customer_id: str, line_id: str, reason: str) -> dict[str, Any]:
        """Suspend an active line, for six months at most."""
        line = self._line_of(customer_id, line_id)
        if line["status"] != "Active":
            raise ValueError("Line must be active to suspend")
        line["status"] = "Suspended"
        line["suspension_start_date"] = str(TODAY)
        message = "Line suspended successfully. $5/month holding fee will apply."
        return {"message": message, "line": Record(line)}

    @tool("write")
    def resume_line(self, customer_id: str, line_id: str) -> dict[str, Any]:
        """Make a line active that is suspended or waits for its activation."""
        line = self._line_of(customer_id, line_id)
        if line["status"] not in ("Suspended", "Pending Activation"):
            raise ValueError("Line must be suspended to resume")
        line["status"] = "Active"
        line["suspension_start_date"] = None
        return {"message": "Line resumed successfully", "line": Record(line)}

    @tool("read")
    def get_bills_for_customer(self, customer_id: str, limit: int = 12) -> Sequence[Record]:
        """List a customer's bills, the latest first."""
        bills = self._bills_of(self._customer(customer_id))
        bills.sort(key=lambda bill: str(bill["issue_date"]), reverse=True)
        return [Record(bill) for bill in bills[:limit]]

    @tool("write")
    def send_payment_request(self, customer_id: str, bill_id: str) -> str:
        """Ask the customer to pay a bill. Only one bill may wait for payment at a time. Check first
        that the bill is not paid already: this tool does not."""
        customer = self._customer(customer_id)
        if self._bills_with(customer, "Awaiting Payment"):
            raise ValueError("A bill is already awaiting payment for this customer")
        if bill_id not in customer["bill_ids"]:
            raise ValueError(f"Bill {bill_id} not found for customer {customer_id}")
        self._by_id("bill", bill_id)["status"] = "Awaiting Payment"
        return f"Payment request sent to the customer for bill {bill_id}"

    @tool("read")
    def get_data_usage(self, customer_id: str, line_id: str) -> dict[str, Any]:
        """See how much data a line used in this billing cycle, its limit and what was refuelled."""
        line = self._line_of(customer_id, line_id)
        plan = self._plan_of(line)
        return {
            "line_id": line_id,
            "data_used_gb": line["data_used_gb"],
            "data_limit_gb": plan["data_limit_gb"],
            "data_refueling_gb": line["data_refueling_gb"],
            "cycle_end_date": str(CYCLE_END),
        }

    @tool("write")
    def enable_roaming(self, customer_id: str, line_id: str) -> str:
        """Allow international roaming on a line."""
        return self._set_roaming(customer_id, line_id, True)

    @tool("write")
    def disable_roaming(self, customer_id: str, line_id: str) -> str:
        """Forbid international roaming on a line."""
        return self._set_roaming(customer_id, line_id, False)

    def _set_roaming(self, customer_id: str, line_id: str, on: bool) -> str:
        line, state = self._line_of(customer_id, line_id), "enabled" if on else "disabled"
        if line["roaming_enabled"] == on:
            return f"Roaming was already {state}"
        line["roaming_enabled"] = on
        return f"Roaming {state} successfully"

    @tool("write")
    def refuel_data(self, customer_id: str, line_id: str, gb_amount: float) -> dict[str, Any]:
        """Add data to a line and charge it to the customer's next bill by the plan's rate."""
        line = self._line_of(customer_id, line_id)
        if gb_amount <= 0:
            raise ValueError("Refuel amount must be positive")
        rate = self._plan_of(line)["data_refueling_price_per_gb"]
        charge = gb_amount * rate
        line["data_refueling_gb"] += gb_amount
        self._charge(customer_id, charge, f"Data refueling: {gb_amount} GB at ${rate}/GB")
        added = f"Successfully added {gb_amount} GB of data for line {line_id} for ${charge:.2f}"
        return {
            "message": added,
            "new_data_refueling_gb": line["data_refueling_gb"],
            "charge": charge,
        }

    def get_available_plan_ids(self) -> Sequence[str]:
        return [plan["plan_id"] for plan in self.db["plans"]]

    def set_data_usage(self, customer_id: str, line_id: str, data_used_gb: float) -> str:
        self._line_of(customer_id, line_id)["data_used_gb"] = data_used_gb
        return f"Data usage set to {data_used_gb} GB for line {line_id}"

    def suspend_line_for_overdue_bill(
        self, customer_id: str, line_id: str, new_bill_id: str, contract_ended: bool
    ) -> str:
        """Set-up of a task: the line is suspended because last month's bill was not paid."""
        line = self._by_id("line", line_id)
        if line["status"] != "Active":
            raise ValueError("Line must be active to suspend for unpaid bill")
        amount = self._plan_of(line)["price_per_month"]
        if amount <= 0:
            raise ValueError("Amount must be positive for overdue bill")
        customer = self._customer(customer_id)
        if self._bills_with(customer, "Overdue"):
            raise ValueError("Customer already has an overdue bill")
        bill = _new_bill(new_bill_id, customer_id, LAST_MONTH, "Overdue")
        bill["line_items"].append(_item(f"Charge for line {line_id}", amount))
        bill["total_due"] += amount
        self.db["bills"].append(bill)
        customer["bill_ids"].append(new_bill_id)
        line["status"] = "Suspended"
        line["suspension_start_date"] = str(TODAY)
        if contract_ended:
            line["contract_end_date"] = str(LAST_MONTH[1])
        return (
            f"Line {line_id} suspended for unpaid bill {new_bill_id}. "
            f"Contract ended: {contract_ended}"
        )

    def assert_data_refueling_amount(
        self, customer_id: str, line_id: str, expected_amount: float
    ) -> bool:
        line = self._line_of(customer_id, line_id)
        return bool(abs(line["data_refueling_gb"] - expected_amount) < 1e-6)

    def assert_line_status(self, customer_id: str, line_id: str, expected_status: str) -> bool:
        return bool(self._line_of(customer_id, line_id)["status"] == expected_status)

    def assert_overdue_bill_exists(self, customer_id: str, overdue_bill_id: str) -> bool:
        if overdue_bill_id not in self._customer(customer_id)["bill_ids"]:
            raise ValueError(f"Overdue bill {overdue_bill_id} not found")
        if self._by_id("bill", overdue_bill_id)["status"] != "Overdue":
            raise ValueError(f"Overdue bill {overdue_bill_id} is not overdue")
        return True

    def assert_no_overdue_bill(self, overdue_bill_id: str) -> bool:
        """True when there is no such bill or it is paid."""
        bills = [bill for bill in self.db["bills"] if bill["bill_id"] == overdue_bill_id]
        return not bills or bills[0]["status"] == "Paid"


def synchronise(carrier: Toolkit, phone: Toolkit) -> None:
    """Carry over what one side of the telecom world must know of the other."""
    if not isinstance(carrier, TelecomTools):
        raise TypeError("the telecom world needs the telecom tools")
    surroundings = phone.db["surroundings"]
    number = surroundings["phone_number"]
    if number is None:
        return
    lines = [line for line in carrier.db["lines"] if line["phone_number"] == number]
    if not lines:
        raise ValueError(f"Line with phone number {number} not found")
    line = lines[0]
    limit = carrier._plan_of(line)["data_limit_gb"] + line["data_refueling_gb"]
    surroundings["line_active"] = line["status"] == "Active"
    surroundings["roaming_allowed"] = line["roaming_enabled"]
    surroundings["mobile_data_usage_exceeded"] = line["data_used_gb"] >= limit
    request = surroundings["payment_request"]
    if request is not None and request["paid"]:
        carrier._by_id("bill", request["bill_id"])["status"] = "Paid"
        surroundings["payment_request"] = request = None
    if request is None:
        waiting = carrier._bills_with(carrier._customer_by_phone(number), "Awaiting Payment")
        if waiting:
            surroundings["payment_request"] = {
                "bill_id": waiting[0]["bill_id"],
                "amount_due": waiting[0]["total_due"],
                "paid": False,
            }
