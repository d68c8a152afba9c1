"""The two domains of the first tau-bench, where they differ from those of tau2.

Refusals begin with a small letter, the data are taken as they stand in the files and arguments as
they come, and some rules differ: booking takes no seats, a change of flights leaves the cabin, an
order's address or payment can only be changed while its status is exactly "pending".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from chimera.eval.benchmarks._tau_bench.airline import (
    AIRPORTS,
    NEW_CERTIFICATE_IDS,
    NEW_RESERVATION_IDS,
    AirlineTools,
)
from chimera.eval.benchmarks._tau_bench.kernel import (
    Call,
    Record,
    Reply,
    Toolkit,
    check_arguments,
    error_text,
    same_state,
    tool,
)
from chimera.eval.benchmarks._tau_bench.retail import RetailTools

#: Calls that end an episode.
TERMINATING = frozenset({"transfer_to_human_agents"})
RESPOND = "respond"


class LegacyToolkit(Toolkit):
    arguments: ClassVar[Mapping[str, str]] = {"thought": "The thought."}

    def respond(self, call: Call) -> Reply:
        """The observation an agent gets for a call."""
        if call.name not in self.tools:
            return Reply(f"Unknown action {call.name}", error=True)
        known = self.tools[call.name]
        owner = "".join(part.capitalize() for part in call.name.split("_"))
        try:
            check_arguments(f"{owner}.invoke", known.signature, call.arguments)
            result = getattr(self, call.name)(**call.arguments)
        except Exception as error:  # noqa: BLE001 - the agent reads it, by the official rule
            return Reply(f"Error: {error_text(error)}", error=True)
        return Reply(result if isinstance(result, str) else json.dumps(result))

    def data_hash_equals(self, other: LegacyToolkit) -> bool:
        """Whether the data have the same official hash: order and number types count."""
        return same_state(self.db, other.db)

    def _refusal(self, text: str, *values: object) -> Exception:
        return super()._refusal(text[0].lower() + text[1:], *values)

    @tool("generic")
    def think(self, thought: str) -> str:
        """Write down a thought. Nothing is looked up or changed; use it for difficult reasoning."""
        return ""


class LegacyAirline(LegacyToolkit, AirlineTools):
    official = "Airline"
    arguments = AirlineTools.arguments
    without = frozenset({"get_flight_status"})
    last_reservation_id = NEW_RESERVATION_IDS[-1]
    booking_takes_seats = False

    def _find(self, table: str, label: str, key: str) -> Any:
        if table != "flights" and key not in self.db[table]:
            raise self._refusal(f"{label} not found")
        return super()._find(table, label, key)

    def _objects(self, kind: Any, values: Any) -> Any:
        return deepcopy(values)

    def _checked(self, kind: Any, **fields: Any) -> Record:
        return Record(fields)

    def _paid(self, payment: Any) -> tuple[str, int]:
        return payment["payment_id"], payment["amount"]

    def _seat(self, wanted: Any, cabin: str, travellers: int) -> tuple[dict[str, Any], Any]:
        number = wanted["flight_number"]
        route = self._flight(number)
        day = self._bookable_day(number, wanted["date"], cabin, travellers)
        wanted["price"] = day["prices"][cabin]
        wanted["origin"], wanted["destination"] = route["origin"], route["destination"]
        return wanted, day

    @tool("read")
    def get_reservation_details(self, reservation_id: str) -> Record:
        """Look up a reservation."""
        return Record(self._find("reservations", "User", reservation_id))

    @tool("read")
    def list_all_airports(self) -> Any:
        """List all airports with their codes and cities."""
        return AIRPORTS

    @tool("read")
    def search_direct_flight(self, origin: str, destination: str, date: str) -> Any:
        """Find flights without a stop between two airports on a day."""
        return [
            {**_without_dates(flight), **flight["dates"][date]}
            for flight in self.db["flights"].values()
            if flight["origin"] == origin
            and flight["destination"] == destination
            and self._open(flight, date)
        ]

    @tool("read")
    def search_onestop_flight(self, origin: str, destination: str, date: str) -> Any:
        """Find pairs of flights with one stop between two airports on a day."""
        flights = list(self.db["flights"].values())
        pairs = []
        for first in flights:
            if first["origin"] != origin:
                continue
            arrival = first["scheduled_arrival_time_est"]
            for second in flights:
                if second["destination"] != destination or second["origin"] != first["destination"]:
                    continue
                next_date = f"2024-05-{int(date[-2:]) + 1}" if "+1" in arrival else date
                if arrival > second["scheduled_departure_time_est"]:
                    continue
                if self._open(first, date) and self._open(second, next_date):
                    # Officially the second flight shows seats and prices of the first one's day.
                    pairs.append(
                        [
                            {**_without_dates(first), **first["dates"][date], "date": date},
                            {**_without_dates(second), **second["dates"][date], "date": next_date},
                        ]
                    )
        return pairs

    @tool("write")
    def send_certificate(self, user_id: str, amount: int) -> Any:
        """Give the customer a travel certificate. Use with care."""
        owned = self._user(user_id)["payment_methods"]
        for key in NEW_CERTIFICATE_IDS:
            if key not in owned:
                owned[key] = {"source": "certificate", "amount": amount, "id": key}
                return f"Certificate {key} added to user {user_id} with amount {amount}."
        return None

    def _segment(
        self, reservation: dict[str, Any], wanted: Any, cabin: str, travellers: int
    ) -> dict[str, Any]:
        segment: dict[str, Any] = wanted
        kept = [
            old
            for old in reservation["flights"]
            if old["flight_number"] == segment["flight_number"]
            and old["date"] == segment["date"]
            and cabin == reservation["cabin"]
        ]
        if kept:
            segment.update({key: kept[0][key] for key in ("price", "origin", "destination")})
        else:
            self._seat(segment, cabin, travellers)
        return segment

    def _rebook(self, reservation: dict[str, Any], wanted: Any, flights: Any, cabin: str) -> None:
        reservation["flights"] = wanted


def _without_dates(flight: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flight.items() if key != "dates"}


class LegacyRetail(LegacyToolkit, RetailTools):
    official = "Retail"
    arguments = RetailTools.arguments
    without = frozenset({"get_item_details"})
    cancel_reasons = tuple(RetailTools.cancel_reasons)
    exchange_refusals = ("{} not found", "The number of items to be exchanged should match")
    return_refusal = "Payment method should be either the original payment method or a gift card"

    def _payment(self, kind: str, amount: float, method_id: str) -> dict[str, Any]:
        return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}

    def _credit(self, order: dict[str, Any], method_id: str, amount: float) -> None:
        if "gift_card" in method_id:
            super()._credit(order, method_id, amount)

    def _address(self, **fields: str) -> dict[str, Any]:
        return fields

    def _check_pending(self, order: dict[str, Any]) -> None:
        if order["status"] != "pending":
            raise self._refusal("Non-pending order cannot be modified")

    def _replacement(self, item: dict[str, Any], new: str) -> Any:
        variant = self.db["products"][item["product_id"]]["variants"].get(new)
        if not (variant and variant["available"]):
            raise self._refusal("New item {} not found or available", new)
        return variant

    def _check_new(self, old: str, new: str) -> None:
        """An item may be replaced by itself here."""

    def _changed_to(
        self, item: dict[str, Any], new: str, last: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        variant: Mapping[str, Any] = self.db["products"][item["product_id"]]["variants"][new]
        return variant
