"""The two domains of the first tau-bench: the same worlds as in tau2, with other texts and rules.

Tools answer errors as results ("Error: user not found"), the data are taken as they stand in the
files, and some rules differ: booking takes no seats, an order's address or payment can only be
changed while its status is exactly "pending".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

from chimera.eval.tau.airline import (
    AIRPORTS,
    BAG_FEE,
    INSURANCE_FEE,
    NEW_CERTIFICATE_IDS,
    NEW_RESERVATION_IDS,
    NOW,
    AirlineTools,
    Cabin,
    FlightInfo,
    FlightType,
    Insurance,
    Passenger,
    Payment,
)
from chimera.eval.tau.kernel import (
    Call,
    Reply,
    Toolkit,
    calculate,
    check_arguments,
    error_text,
    same_state,
    tool,
)
from chimera.eval.tau.retail import CANCEL_REASONS, RetailTools

#: Calls that end an episode.
TERMINATING = frozenset({"transfer_to_human_agents"})
RESPOND = "respond"


class Refused(Exception):
    """A tool's refusal; its text is the tool's result."""


class LegacyToolkit(Toolkit):
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

    @tool("generic")
    def calculate(self, expression: str) -> str:
        """Work out an arithmetic expression."""
        if not all(char in "0123456789+-*/(). " for char in expression):
            raise Refused("invalid characters in expression")
        return calculate(expression)

    @tool("generic")
    def think(self, thought: str) -> str:
        """Write down a thought. Nothing is looked up or changed; use it for difficult reasoning."""
        return ""

    @tool("generic")
    def transfer_to_human_agents(self, summary: str) -> str:
        """Hand the customer over to a human agent: only when they ask for one explicitly, or when
        the tools give no way to help them."""
        return "Transfer successful"

    def _find(self, table: str, label: str, key: str) -> dict[str, Any]:
        if key not in self.db[table]:
            raise Refused(f"{label} not found")
        found: dict[str, Any] = self.db[table][key]
        return found


class LegacyAirline(LegacyToolkit):
    official = "Airline"
    arguments: ClassVar[Mapping[str, str]] = {**AirlineTools.arguments, "thought": "The thought."}

    def _day(self, flight: dict[str, Any], cabin: str, travellers: int) -> dict[str, Any]:
        number = flight["flight_number"]
        if number not in self.db["flights"]:
            raise Refused(f"flight {number} not found")
        dates, date = self.db["flights"][number]["dates"], flight["date"]
        if date not in dates:
            raise Refused(f"flight {number} not found on date {date}")
        day: dict[str, Any] = dates[date]
        if day["status"] != "available":
            raise Refused(f"flight {number} not available on date {date}")
        if day["available_seats"][cabin] < travellers:
            raise Refused(f"not enough seats on flight {number}")
        return day

    def _price(self, flight: dict[str, Any], cabin: str, travellers: int) -> None:
        day = self._day(flight, cabin, travellers)
        route = self.db["flights"][flight["flight_number"]]
        flight["price"] = day["prices"][cabin]
        flight["origin"], flight["destination"] = route["origin"], route["destination"]

    def _method_for_change(self, user_id: str, payment_id: str, price: int) -> dict[str, Any]:
        methods = self.db["users"][user_id]["payment_methods"]
        if payment_id not in methods:
            raise Refused("payment method not found")
        method: dict[str, Any] = methods[payment_id]
        if method["source"] == "certificate":
            raise Refused("certificate cannot be used to update reservation")
        if method["source"] == "gift_card" and method["amount"] < price:
            raise Refused("gift card balance is not enough")
        return method

    @tool("write")
    def book_reservation(
        self,
        user_id: str,
        origin: str,
        destination: str,
        flight_type: FlightType,
        cabin: Cabin,
        flights: list[FlightInfo],  # type: ignore[valid-type]
        passengers: list[Passenger],  # type: ignore[valid-type]
        payment_methods: list[Payment],  # type: ignore[valid-type]
        total_baggages: int,
        nonfree_baggages: int,
        insurance: Insurance,
    ) -> dict[str, Any]:
        """Make a new reservation and charge it to the customer's payment methods."""
        user = self._find("users", "user", user_id)
        free = [key for key in NEW_RESERVATION_IDS if key not in self.db["reservations"]]
        reservation_id = free[0] if free else NEW_RESERVATION_IDS[-1]
        reservation: dict[str, Any] = {
            "reservation_id": reservation_id,
            "user_id": user_id,
            "origin": origin,
            "destination": destination,
            "flight_type": flight_type,
            "cabin": cabin,
            "flights": deepcopy(flights),
            "passengers": passengers,
            "payment_history": payment_methods,
            "created_at": NOW,
            "total_baggages": total_baggages,
            "nonfree_baggages": nonfree_baggages,
            "insurance": insurance,
        }
        price = 0
        for flight in reservation["flights"]:
            self._price(flight, cabin, len(passengers))
            price += flight["price"] * len(passengers)
        if insurance == "yes":
            price += INSURANCE_FEE * len(passengers)
        price += BAG_FEE * nonfree_baggages
        self._pay(user, reservation["payment_history"], price)
        self.db["reservations"][reservation_id] = reservation
        user["reservations"].append(reservation_id)
        return reservation

    def _pay(self, user: dict[str, Any], payments: list[dict[str, Any]], price: int) -> None:
        owned = user["payment_methods"]
        for payment in payments:
            payment_id, amount = payment["payment_id"], payment["amount"]
            if payment_id not in owned:
                raise Refused(f"payment method {payment_id} not found")
            limited = owned[payment_id]["source"] in ("gift_card", "certificate")
            if limited and owned[payment_id]["amount"] < amount:
                raise Refused(f"not enough balance in payment method {payment_id}")
        paid = sum(payment["amount"] for payment in payments)
        if paid != price:
            raise Refused(
                f"payment amount does not add up, total price is {price}, but paid {paid}"
            )
        for payment in payments:
            method = owned[payment["payment_id"]]
            if method["source"] == "gift_card":
                method["amount"] -= payment["amount"]
            elif method["source"] == "certificate":
                del owned[payment["payment_id"]]

    @tool("write")
    def cancel_reservation(self, reservation_id: str) -> dict[str, Any]:
        """Cancel a whole reservation and refund what was paid."""
        reservation = self._find("reservations", "reservation", reservation_id)
        refunds = [
            {"payment_id": payment["payment_id"], "amount": -payment["amount"]}
            for payment in reservation["payment_history"]
        ]
        reservation["payment_history"].extend(refunds)
        reservation["status"] = "cancelled"
        return reservation

    @tool("read")
    def get_reservation_details(self, reservation_id: str) -> dict[str, Any]:
        """Look up a reservation."""
        return self._find("reservations", "user", reservation_id)

    @tool("read")
    def get_user_details(self, user_id: str) -> dict[str, Any]:
        """Look up a customer with their payment methods and reservations."""
        return self._find("users", "user", user_id)

    @tool("read")
    def list_all_airports(self) -> dict[str, Any]:
        """List all airports with their codes and cities."""
        return dict(AIRPORTS)

    def _open(self, flight: dict[str, Any], date: str) -> bool:
        return date in flight["dates"] and flight["dates"][date]["status"] == "available"

    @tool("read")
    def search_direct_flight(self, origin: str, destination: str, date: str) -> list[Any]:
        """Find flights without a stop between two airports on a day."""
        return [
            {**_without_dates(flight), **flight["dates"][date]}
            for flight in self.db["flights"].values()
            if flight["origin"] == origin
            and flight["destination"] == destination
            and self._open(flight, date)
        ]

    @tool("read")
    def search_onestop_flight(self, origin: str, destination: str, date: str) -> list[Any]:
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
    def send_certificate(self, user_id: str, amount: int) -> str | None:
        """Give the customer a travel certificate. Use with care."""
        owned = self._find("users", "user", user_id)["payment_methods"]
        for key in NEW_CERTIFICATE_IDS:
            if key not in owned:
                owned[key] = {"source": "certificate", "amount": amount, "id": key}
                return f"Certificate {key} added to user {user_id} with amount {amount}."
        return None

    @tool("write")
    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> dict[str, Any]:
        """Change the number of bags of a reservation."""
        reservation = self._find("reservations", "reservation", reservation_id)
        price = BAG_FEE * max(0, nonfree_baggages - reservation["nonfree_baggages"])
        method = self._method_for_change(reservation["user_id"], payment_id, price)
        reservation["total_baggages"] = total_baggages
        reservation["nonfree_baggages"] = nonfree_baggages
        if method["source"] == "gift_card":
            method["amount"] -= price
        if price != 0:
            reservation["payment_history"].append({"payment_id": payment_id, "amount": price})
        return reservation

    @tool("write")
    def update_reservation_flights(
        self,
        reservation_id: str,
        cabin: Cabin,
        flights: list[FlightInfo],  # type: ignore[valid-type]
        payment_id: str,
    ) -> dict[str, Any]:
        """Change the flights of a reservation and settle the difference in price."""
        reservation = self._find("reservations", "reservation", reservation_id)
        travellers = len(reservation["passengers"])
        changed: list[dict[str, Any]] = deepcopy(flights)
        price = 0
        for flight in changed:
            kept = [
                old
                for old in reservation["flights"]
                if old["flight_number"] == flight["flight_number"]
                and old["date"] == flight["date"]
                and cabin == reservation["cabin"]
            ]
            if kept:
                flight["price"] = kept[0]["price"]
                flight["origin"] = kept[0]["origin"]
                flight["destination"] = kept[0]["destination"]
            else:
                self._price(flight, cabin, travellers)
            price += flight["price"] * travellers
        price -= sum(flight["price"] for flight in reservation["flights"]) * travellers
        method = self._method_for_change(reservation["user_id"], payment_id, price)
        if method["source"] == "gift_card":
            method["amount"] -= price
        reservation["flights"] = changed
        if price != 0:
            reservation["payment_history"].append({"payment_id": payment_id, "amount": price})
        return reservation

    @tool("write")
    def update_reservation_passengers(
        self,
        reservation_id: str,
        passengers: list[Passenger],  # type: ignore[valid-type]
    ) -> dict[str, Any]:
        """Correct the passengers of a reservation; their number stays the same."""
        reservation = self._find("reservations", "reservation", reservation_id)
        if len(passengers) != len(reservation["passengers"]):
            raise Refused("number of passengers does not match")
        reservation["passengers"] = passengers
        return reservation


def _without_dates(flight: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flight.items() if key != "dates"}


class LegacyRetail(LegacyToolkit):
    official = "Retail"
    arguments: ClassVar[Mapping[str, str]] = {**RetailTools.arguments, "thought": "The thought."}

    def _pending(self, order_id: str, verb: str) -> dict[str, Any]:
        order = self._find("orders", "order", order_id)
        if order["status"] != "pending":
            raise Refused(f"non-pending order cannot be {verb}")
        return order

    def _delivered(self, order_id: str, verb: str) -> dict[str, Any]:
        order = self._find("orders", "order", order_id)
        if order["status"] != "delivered":
            raise Refused(f"non-delivered order cannot be {verb}")
        return order

    def _methods(self, order: dict[str, Any]) -> dict[str, Any]:
        methods: dict[str, Any] = self.db["users"][order["user_id"]]["payment_methods"]
        return methods

    def _method(self, order: dict[str, Any], method_id: str) -> dict[str, Any]:
        methods = self._methods(order)
        if method_id not in methods:
            raise Refused("payment method not found")
        method: dict[str, Any] = methods[method_id]
        return method

    def _credit(self, order: dict[str, Any], method_id: str, amount: float) -> None:
        if "gift_card" in method_id:
            method = self._methods(order)[method_id]
            method["balance"] = round(method["balance"] + amount, 2)

    def _difference(self, order: dict[str, Any], item_ids: Any, new_item_ids: Any) -> float:
        owned = [item["item_id"] for item in order["items"]]
        for item_id in item_ids:
            if item_ids.count(item_id) > owned.count(item_id):
                raise Refused(f"{item_id} not found")
        if len(item_ids) != len(new_item_ids):
            raise Refused("the number of items to be exchanged should match")
        difference: float = 0
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            variants = self.db["products"][item["product_id"]]["variants"]
            if not (new in variants and variants[new]["available"]):
                raise Refused(f"new item {new} not found or available")
            difference += variants[new]["price"] - item["price"]
        return difference

    @tool("write")
    def cancel_pending_order(self, order_id: str, reason: str) -> dict[str, Any]:
        """Cancel an order that is still pending and refund it. Explain the details and get an
        explicit yes from the customer first."""
        order = self._pending(order_id, "cancelled")
        if reason not in CANCEL_REASONS:
            raise Refused("invalid reason")
        refunds = []
        for payment in order["payment_history"]:
            method_id, amount = payment["payment_method_id"], payment["amount"]
            refunds.append(_entry("refund", amount, method_id))
            self._credit(order, method_id, amount)
        order["status"] = "cancelled"
        order["cancel_reason"] = reason
        order["payment_history"].extend(refunds)
        return order

    @tool("write")
    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Exchange items of a delivered order for others of the same products. An order can be
        returned or exchanged only once. Explain the details and get an explicit yes first."""
        order = self._delivered(order_id, "exchanged")
        difference = round(self._difference(order, item_ids, new_item_ids), 2)
        method = self._method(order, payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < difference:
            raise Refused("insufficient gift card balance to pay for the price difference")
        order["status"] = "exchange requested"
        order["exchange_items"] = sorted(item_ids)
        order["exchange_new_items"] = sorted(new_item_ids)
        order["exchange_payment_method_id"] = payment_method_id
        order["exchange_price_difference"] = difference
        return order

    @tool("read")
    def find_user_id_by_email(self, email: str) -> str:
        """Find a customer's id by e-mail address."""
        for user_id, user in self.db["users"].items():
            if user["email"].lower() == email.lower():
                return str(user_id)
        raise Refused("user not found")

    @tool("read")
    def find_user_id_by_name_zip(self, first_name: str, last_name: str, zip: str) -> str:
        """Find a customer's id by name and zip code, when the e-mail address fails."""
        for user_id, user in self.db["users"].items():
            name = user["name"]
            if (
                name["first_name"].lower() == first_name.lower()
                and name["last_name"].lower() == last_name.lower()
                and user["address"]["zip"] == zip
            ):
                return str(user_id)
        raise Refused("user not found")

    @tool("read")
    def get_order_details(self, order_id: str) -> dict[str, Any]:
        """Look up an order and its status."""
        return self._find("orders", "order", order_id)

    @tool("read")
    def get_product_details(self, product_id: str) -> dict[str, Any]:
        """Look up a product with all its variants."""
        return self._find("products", "product", product_id)

    @tool("read")
    def get_user_details(self, user_id: str) -> dict[str, Any]:
        """Look up a customer with their payment methods and orders."""
        return self._find("users", "user", user_id)

    @tool("read")
    def list_all_product_types(self) -> dict[str, Any]:
        """List the names and ids of all product types (there are 50)."""
        names = {p["name"]: p["product_id"] for p in self.db["products"].values()}
        return dict(sorted(names.items()))

    @tool("write")
    def modify_pending_order_address(
        self,
        order_id: str,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,
    ) -> dict[str, Any]:
        """Change the shipping address of a pending order. Get an explicit yes first."""
        order = self._pending(order_id, "modified")
        order["address"] = _address(address1, address2, city, state, country, zip)
        return order

    @tool("write")
    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Replace items of a pending order by others of the same products. Possible only once for
        an order. Explain the details and get an explicit yes first."""
        order = self._pending(order_id, "modified")
        difference = self._difference(order, item_ids, new_item_ids)
        method = self._method(order, payment_method_id)
        if method["source"] == "gift_card" and method["balance"] < difference:
            raise Refused("insufficient gift card balance to pay for the new item")
        kind = "payment" if difference > 0 else "refund"
        order["payment_history"].append(_entry(kind, abs(difference), payment_method_id))
        if method["source"] == "gift_card":
            method["balance"] = round(method["balance"] - difference, 2)
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = next(item for item in order["items"] if item["item_id"] == old)
            variant = self.db["products"][item["product_id"]]["variants"][new]
            item.update(item_id=new, price=variant["price"], options=variant["options"])
        order["status"] = "pending (item modified)"
        return order

    @tool("write")
    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> dict[str, Any]:
        """Change the payment method of a pending order. Get an explicit yes first."""
        order = self._pending(order_id, "modified")
        method = self._method(order, payment_method_id)
        history = order["payment_history"]
        if len(history) > 1 or history[0]["transaction_type"] != "payment":
            raise Refused("there should be exactly one payment for a pending order")
        old_id, amount = history[0]["payment_method_id"], history[0]["amount"]
        if old_id == payment_method_id:
            raise Refused("the new payment method should be different from the current one")
        if method["source"] == "gift_card" and method["balance"] < amount:
            raise Refused("insufficient gift card balance to pay for the order")
        history.append(_entry("payment", amount, payment_method_id))
        history.append(_entry("refund", amount, old_id))
        if method["source"] == "gift_card":
            method["balance"] = round(method["balance"] - amount, 2)
        self._credit(order, old_id, amount)
        return order

    @tool("write")
    def modify_user_address(
        self,
        user_id: str,
        address1: str,
        address2: str,
        city: str,
        state: str,
        country: str,
        zip: str,
    ) -> dict[str, Any]:
        """Change a customer's default address. Get an explicit yes first."""
        user = self._find("users", "user", user_id)
        user["address"] = _address(address1, address2, city, state, country, zip)
        return user

    @tool("write")
    def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> dict[str, Any]:
        """Return items of a delivered order. Explain the details and get an explicit yes first."""
        order = self._delivered(order_id, "returned")
        self._method(order, payment_method_id)
        original = order["payment_history"][0]["payment_method_id"]
        if "gift_card" not in payment_method_id and payment_method_id != original:
            raise Refused(
                "payment method should be either the original payment method or a gift card"
            )
        owned = [item["item_id"] for item in order["items"]]
        if any(item_ids.count(item_id) > owned.count(item_id) for item_id in item_ids):
            raise Refused("some item not found")
        order["status"] = "return requested"
        order["return_items"] = sorted(item_ids)
        order["return_payment_method_id"] = payment_method_id
        return order


def _entry(kind: str, amount: float, method_id: str) -> dict[str, Any]:
    return {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}


def _address(
    address1: str, address2: str, city: str, state: str, country: str, zip: str
) -> dict[str, Any]:
    return {
        "address1": address1,
        "address2": address2,
        "city": city,
        "state": state,
        "country": country,
        "zip": zip,
    }
