"""The airline of tau2-bench: reservations, flights, payments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal

from chimera.eval.benchmarks._tau_bench.counter import CalculatingTools
from chimera.eval.benchmarks._tau_bench.kernel import Record, attribute, checked, model, tool

NOW = "2024-05-15T15:00:00"
NEW_RESERVATION_IDS = ("HATHAT", "HATHAU", "HATHAV")
NEW_CERTIFICATE_IDS = ("certificate_3221322", "certificate_3221323", "certificate_3221324")
BAG_FEE = 50
INSURANCE_FEE = 30
AIRPORTS = {
    "SFO": "San Francisco",
    "JFK": "New York",
    "LAX": "Los Angeles",
    "ORD": "Chicago",
    "DFW": "Dallas",
    "DEN": "Denver",
    "SEA": "Seattle",
    "ATL": "Atlanta",
    "MIA": "Miami",
    "BOS": "Boston",
    "PHX": "Phoenix",
    "IAH": "Houston",
    "LAS": "Las Vegas",
    "MCO": "Orlando",
    "EWR": "Newark",
    "CLT": "Charlotte",
    "MSP": "Minneapolis",
    "DTW": "Detroit",
    "PHL": "Philadelphia",
    "LGA": "LaGuardia",
}

Cabin = Literal["business", "economy", "basic_economy"]
FlightType = Literal["round_trip", "one_way"]
Insurance = Literal["yes", "no"]

_seats = dict[Cabin, int]
_name = model("Name", first_name=str, last_name=str)
_address = model(
    "Address", address1=str, address2=(str | None, None), city=str, country=str, state=str, zip=str
)
Payment = model("Payment", payment_id=str, amount=int)
Passenger = model("Passenger", first_name=str, last_name=str, dob=str)
FlightInfo = model("FlightInfo", flight_number=str, date=str)
Certificate = model("Certificate", source=Literal["certificate"], id=str, amount=float)
_credit_card = model("CreditCard", source=Literal["credit_card"], id=str, brand=str, last_four=str)
_gift_card = model("GiftCard", source=Literal["gift_card"], id=str, amount=float)
_available = model(
    "FlightDateStatusAvailable", status=Literal["available"], available_seats=_seats, prices=_seats
)
_landed = model(
    "FlightDateStatusLanded",
    status=Literal["landed"],
    actual_departure_time_est=str,
    actual_arrival_time_est=str,
)
_cancelled = model("FlightDateStatusCancelled", status=Literal["cancelled"])
_delayed = model(
    "FlightDateStatusDelayed",
    status=Literal["delayed"],
    estimated_departure_time_est=str,
    estimated_arrival_time_est=str,
)
_flying = model(
    "FlightDataStatusFlying",
    status=Literal["flying"],
    actual_departure_time_est=str,
    estimated_arrival_time_est=str,
)
_on_time = model(
    "FlightDataStatusOnTime",
    status=Literal["on time"],
    estimated_departure_time_est=str,
    estimated_arrival_time_est=str,
)
_flight = model(
    "Flight",
    flight_number=str,
    origin=str,
    destination=str,
    scheduled_departure_time_est=str,
    scheduled_arrival_time_est=str,
    dates=dict[str, _available | _landed | _cancelled | _delayed | _flying | _on_time],  # type: ignore[valid-type]
)
_reservation_flight = model(
    "ReservationFlight", flight_number=str, origin=str, destination=str, date=str, price=int
)
_user = model(
    "User",
    user_id=str,
    name=_name,
    address=_address,
    email=str,
    dob=str,
    payment_methods=dict[str, _credit_card | _gift_card | Certificate],  # type: ignore[valid-type]
    saved_passengers=list[Passenger],  # type: ignore[valid-type]
    membership=Literal["gold", "silver", "regular"],
    reservations=list[str],
)
Reservation = model(
    "Reservation",
    reservation_id=str,
    user_id=str,
    origin=str,
    destination=str,
    flight_type=FlightType,
    cabin=Cabin,
    flights=list[_reservation_flight],  # type: ignore[valid-type]
    passengers=list[Passenger],  # type: ignore[valid-type]
    payment_history=list[Payment],  # type: ignore[valid-type]
    created_at=str,
    total_baggages=int,
    nonfree_baggages=int,
    insurance=Insurance,
    status=(Literal["cancelled"] | None, None),
)
_database = model(
    "FlightDB",
    flights=dict[str, _flight],  # type: ignore[valid-type]
    users=dict[str, _user],  # type: ignore[valid-type]
    reservations=dict[str, Reservation],  # type: ignore[valid-type]
)


def _dumped(values: Any) -> Any:
    """Checked objects as the plain dicts that other models accept."""
    return (
        [dict(v) if isinstance(v, Record) else v for v in values]
        if isinstance(values, list)
        else values
    )


def _shown(flight: dict[str, Any], day: dict[str, Any]) -> Record:
    return Record(
        flight_number=flight["flight_number"],
        origin=flight["origin"],
        destination=flight["destination"],
        status="available",
        scheduled_departure_time_est=flight["scheduled_departure_time_est"],
        scheduled_arrival_time_est=flight["scheduled_arrival_time_est"],
        date=None,
        available_seats=day["available_seats"],
        prices=day["prices"],
    )


class AirlineTools(CalculatingTools):
    official = "AirlineTools"
    database = _database
    #: What a booking gets when all the new ids are taken.
    last_reservation_id: ClassVar[str | None] = None
    booking_takes_seats: ClassVar[bool] = True
    arguments: ClassVar[Mapping[str, str]] = {
        "user_id": "Id of the customer, e.g. 'sara_doe_496'.",
        "reservation_id": "Id of the reservation, e.g. 'ZFA04Y'.",
        "origin": "Three-letter code of the airport of departure, e.g. 'SFO'.",
        "destination": "Three-letter code of the airport of arrival, e.g. 'JFK'.",
        "date": "Day of the flight as YYYY-MM-DD, e.g. '2024-05-01'.",
        "flight_number": "Number of the flight, e.g. 'HAT001'.",
        "flights": "Every segment of the whole trip, also those that stay as they are.",
        "passengers": "All passengers of the reservation.",
        "payment_methods": "What is paid with which of the customer's payment methods.",
        "payment_id": "One of the customer's payment methods, e.g. 'credit_card_7815826'.",
        "total_baggages": "Number of checked bags, free ones included.",
        "nonfree_baggages": "Number of checked bags that are paid for.",
        "insurance": "Whether travel insurance is taken.",
        "amount": "Value in dollars.",
    }

    def _objects(self, kind: Any, values: Any) -> Any:
        """The values as checked objects when all are dicts; otherwise as they came."""
        if all(isinstance(value, dict) for value in values):
            return [checked(kind, value) for value in values]
        return values

    def _checked(self, kind: Any, **fields: Any) -> Record:
        return checked(kind, fields)

    def _user(self, user_id: str) -> Any:
        return self._find("users", "User", user_id)

    def _reservation(self, reservation_id: str) -> Any:
        return self._find("reservations", "Reservation", reservation_id)

    def _flight(self, flight_number: str) -> Any:
        return self._find("flights", "Flight", flight_number)

    def _day(self, flight_number: str, date: str) -> Any:
        flight = self._flight(flight_number)
        if date not in flight["dates"]:
            raise self._refusal(f"Flight {flight_number} not found on date {date}")
        return flight["dates"][date]

    def _bookable_day(self, number: str, date: str, cabin: str, travellers: int) -> Any:
        day = self._day(number, date)
        if day["status"] != "available":
            raise self._refusal(f"Flight {number} not available on date {date}")
        if day["available_seats"][cabin] < travellers:
            raise self._refusal(f"Not enough seats on flight {number}")
        return day

    def _open(self, flight: dict[str, Any], date: str) -> bool:
        return date in flight["dates"] and flight["dates"][date]["status"] == "available"

    def _available(
        self, date: str, origin: str | None, destination: str | None, leave_after: str = ""
    ) -> list[Record]:
        return [
            _shown(flight, flight["dates"][date])
            for flight in self.db["flights"].values()
            if origin in (None, flight["origin"])
            and destination in (None, flight["destination"])
            and self._open(flight, date)
            and flight["scheduled_departure_time_est"] >= leave_after
        ]

    def _charge(self, reservation: dict[str, Any], payment_id: str, price: int) -> None:
        """Take (or give back) the price of a change; certificates cannot pay for changes."""
        methods = self._user(reservation["user_id"])["payment_methods"]
        if payment_id not in methods:
            raise self._refusal("Payment method not found")
        method = methods[payment_id]
        if method["source"] == "certificate":
            raise self._refusal("Certificate cannot be used to update reservation")
        if method["source"] == "gift_card":
            if method["amount"] < price:
                raise self._refusal("Gift card balance is not enough")
            method["amount"] -= price
        if price != 0:
            paid = self._checked(Payment, payment_id=payment_id, amount=price)
            reservation["payment_history"].append(dict(paid))

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
    ) -> Record:
        """Make a new reservation and charge it to the customer's payment methods."""
        flights = self._objects(FlightInfo, flights)
        passengers = self._objects(Passenger, passengers)
        payment_methods = self._objects(Payment, payment_methods)
        user = self._user(user_id)
        free = [key for key in NEW_RESERVATION_IDS if key not in self.db["reservations"]]
        reservation_id = free[0] if free else self.last_reservation_id
        if reservation_id is None:
            raise self._refusal("Too many reservations")
        reservation = self._checked(
            Reservation,
            reservation_id=reservation_id,
            user_id=user_id,
            origin=origin,
            destination=destination,
            flight_type=flight_type,
            cabin=cabin,
            flights=[],
            passengers=_dumped(passengers),
            payment_history=_dumped(payment_methods),
            created_at=NOW,
            total_baggages=total_baggages,
            nonfree_baggages=nonfree_baggages,
            insurance=insurance,
        )
        seats = [self._seat(wanted, cabin, len(passengers)) for wanted in flights]
        self._rebook(reservation, flights, [segment for segment, _ in seats], cabin)
        price = sum(segment["price"] * len(passengers) for segment, _ in seats)
        if insurance == "yes":
            price += INSURANCE_FEE * len(passengers)
        price += BAG_FEE * nonfree_baggages
        self._pay(user, payment_methods, price)
        if self.booking_takes_seats:
            for _, day in seats:
                day["available_seats"][cabin] -= len(passengers)
        self.db["reservations"][reservation_id] = dict(reservation)
        user["reservations"].append(reservation_id)
        return reservation

    def _seat(self, wanted: Any, cabin: str, travellers: int) -> tuple[dict[str, Any], Any]:
        """A segment on a flight that can be booked, and the day whose seats it takes."""
        number, date = attribute(wanted, "flight_number"), attribute(wanted, "date")
        flight = self._flight(number)
        day = self._bookable_day(number, date, cabin, travellers)
        segment = {
            "flight_number": number,
            "origin": flight["origin"],
            "destination": flight["destination"],
            "date": date,
            "price": day["prices"][cabin],
        }
        return segment, day

    def _paid(self, payment: Any) -> tuple[str, int]:
        return attribute(payment, "payment_id"), attribute(payment, "amount")

    def _pay(self, user: dict[str, Any], payments: Any, price: int) -> None:
        owned = user["payment_methods"]
        for payment in payments:
            payment_id, amount = self._paid(payment)
            if payment_id not in owned:
                raise self._refusal(f"Payment method {payment_id} not found")
            limited = owned[payment_id]["source"] in ("gift_card", "certificate")
            if limited and owned[payment_id]["amount"] < amount:
                raise self._refusal(f"Not enough balance in payment method {payment_id}")
        paid = sum(payment["amount"] for payment in payments)
        if paid != price:
            raise self._refusal(
                f"Payment amount does not add up, total price is {price}, but paid {paid}"
            )
        for payment in payments:
            method = owned[payment["payment_id"]]
            if method["source"] == "gift_card":
                method["amount"] -= payment["amount"]
            elif method["source"] == "certificate":
                owned.pop(payment["payment_id"])

    @tool("write")
    def cancel_reservation(self, reservation_id: str) -> Record:
        """Cancel a whole reservation and refund what was paid."""
        reservation = self._reservation(reservation_id)
        refunds = [
            {"payment_id": payment["payment_id"], "amount": -payment["amount"]}
            for payment in reservation["payment_history"]
        ]
        reservation["payment_history"].extend(refunds)
        reservation["status"] = "cancelled"
        return Record(reservation)

    @tool("read")
    def get_reservation_details(self, reservation_id: str) -> Record:
        """Look up a reservation."""
        return Record(self._reservation(reservation_id))

    @tool("read")
    def get_user_details(self, user_id: str) -> Record:
        """Look up a customer with their payment methods and reservations."""
        return Record(self._user(user_id))

    @tool("read")
    def list_all_airports(self) -> Sequence[Record]:
        """List all airports with their codes and cities."""
        return [Record(iata=code, city=city) for code, city in AIRPORTS.items()]

    @tool("read")
    def search_direct_flight(self, origin: str, destination: str, date: str) -> Sequence[Record]:
        """Find flights without a stop between two airports on a day."""
        return self._available(date, origin, destination)

    @tool("read")
    def search_onestop_flight(
        self, origin: str, destination: str, date: str
    ) -> Sequence[Sequence[Record]]:
        """Find pairs of flights with one stop between two airports on a day."""
        pairs = []
        for first in self._available(date, origin, None):
            first["date"] = date
            arrival = first["scheduled_arrival_time_est"]
            next_date = f"2024-05-{int(date[-2:]) + 1}" if "+1" in arrival else date
            for second in self._available(next_date, first["destination"], destination, arrival):
                second["date"] = next_date
                pairs.append([first, second])
        return pairs

    @tool("write")
    def send_certificate(self, user_id: str, amount: int) -> str:
        """Give the customer a travel certificate. Use with care."""
        owned = self._user(user_id)["payment_methods"]
        for key in NEW_CERTIFICATE_IDS:
            if key not in owned:
                fields = {"source": "certificate", "id": key, "amount": amount}
                owned[key] = dict(checked(Certificate, fields))
                return f"Certificate {key} added to user {user_id} with amount {amount}."
        raise self._refusal("Too many certificates")

    @tool("write")
    def update_reservation_baggages(
        self, reservation_id: str, total_baggages: int, nonfree_baggages: int, payment_id: str
    ) -> Record:
        """Change the number of bags of a reservation."""
        reservation = self._reservation(reservation_id)
        self._user(reservation["user_id"])
        price = BAG_FEE * max(0, nonfree_baggages - reservation["nonfree_baggages"])
        self._charge(reservation, payment_id, price)
        reservation["total_baggages"] = total_baggages
        reservation["nonfree_baggages"] = nonfree_baggages
        return Record(reservation)

    @tool("write")
    def update_reservation_flights(
        self,
        reservation_id: str,
        cabin: Cabin,
        flights: list[FlightInfo],  # type: ignore[valid-type]
        payment_id: str,
    ) -> Record:
        """Change the flights or the cabin of a reservation and settle the difference in price."""
        flights = self._objects(FlightInfo, flights)
        reservation = self._reservation(reservation_id)
        self._user(reservation["user_id"])
        travellers = len(reservation["passengers"])
        changed = [self._segment(reservation, wanted, cabin, travellers) for wanted in flights]
        price = sum(segment["price"] for segment in changed) * travellers
        price -= sum(segment["price"] for segment in reservation["flights"]) * travellers
        self._charge(reservation, payment_id, price)
        self._rebook(reservation, flights, changed, cabin)
        return Record(reservation)

    def _rebook(self, reservation: dict[str, Any], wanted: Any, flights: Any, cabin: str) -> None:
        reservation.update(flights=flights, cabin=cabin)

    def _segment(
        self, reservation: dict[str, Any], wanted: Any, cabin: str, travellers: int
    ) -> dict[str, Any]:
        """A segment that stays keeps its price; a new one is looked up and priced."""
        for kept in reservation["flights"]:
            same_flight = kept["flight_number"] == attribute(wanted, "flight_number")
            if same_flight and kept["date"] == wanted["date"] and cabin == reservation["cabin"]:
                segment: dict[str, Any] = kept
                return segment
        return self._seat(wanted, cabin, travellers)[0]

    @tool("write")
    def update_reservation_passengers(
        self,
        reservation_id: str,
        passengers: list[Passenger],  # type: ignore[valid-type]
    ) -> Record:
        """Correct the passengers of a reservation; their number stays the same."""
        passengers = self._objects(Passenger, passengers)
        reservation = self._reservation(reservation_id)
        if len(passengers) != len(reservation["passengers"]):
            raise self._refusal("Number of passengers does not match")
        reservation["passengers"] = deepcopy(_dumped(passengers))
        return Record(reservation)

    @tool("read")
    def get_flight_status(self, flight_number: str, date: str) -> str:
        """Look up how a flight stands on a day."""
        status: str = self._day(flight_number, date)["status"]
        return status
