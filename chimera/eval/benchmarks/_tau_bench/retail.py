"""The shop of tau2-bench: orders, products, customers."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal

from chimera.eval.benchmarks._tau_bench.counter import CalculatingTools
from chimera.eval.benchmarks._tau_bench.kernel import Record, checked, model, tool

_variant = model("Variant", item_id=str, options=dict[str, str], available=bool, price=float)
_product = model("Product", name=str, product_id=str, variants=dict[str, _variant])  # type: ignore[valid-type]
_name = model("UserName", first_name=str, last_name=str)
UserAddress = model(
    "UserAddress", address1=str, address2=str, city=str, country=str, state=str, zip=str
)
_credit_card = model("CreditCard", source=Literal["credit_card"], id=str, brand=str, last_four=str)
_paypal = model("Paypal", source=Literal["paypal"], id=str)
_gift_card = model("GiftCard", source=Literal["gift_card"], id=str, balance=float)
_user = model(
    "User",
    user_id=str,
    name=_name,
    address=UserAddress,
    email=str,
    payment_methods=dict[str, _credit_card | _gift_card | _paypal],  # type: ignore[valid-type]
    orders=list[str],
)
_fulfilment = model("OrderFullfilment", tracking_id=list[str], item_ids=list[str])
_item = model(
    "OrderItem", name=str, product_id=str, item_id=str, price=float, options=dict[str, str]
)
OrderPayment = model(
    "OrderPayment",
    transaction_type=Literal["payment", "refund"],
    amount=float,
    payment_method_id=str,
)
_order = model(
    "Order",
    order_id=str,
    user_id=str,
    address=UserAddress,
    items=list[_item],  # type: ignore[valid-type]
    status=str,
    fulfillments=list[_fulfilment],  # type: ignore[valid-type]
    payment_history=list[OrderPayment],  # type: ignore[valid-type]
    cancel_reason=(str | None, None),
    exchange_items=(list[str] | None, None),
    exchange_new_items=(list[str] | None, None),
    exchange_payment_method_id=(str | None, None),
    exchange_price_difference=(float | None, None),
    return_items=(list[str] | None, None),
    return_payment_method_id=(str | None, None),
)
_database = model(
    "RetailDB",
    products=dict[str, _product],  # type: ignore[valid-type]
    users=dict[str, _user],  # type: ignore[valid-type]
    orders=dict[str, _order],  # type: ignore[valid-type]
)


class RetailTools(CalculatingTools):
    official = "RetailTools"
    database = _database
    cancel_reasons: ClassVar[Collection[str]] = frozenset(
        {"no longer needed", "ordered by mistake"}
    )
    exchange_refusals = (
        "Number of {} not found.",
        "The number of items to be exchanged should match.",
    )
    return_refusal = "Payment method should be the original payment method"
    arguments: ClassVar[Mapping[str, str]] = {
        "user_id": "Id of the customer, e.g. 'sara_doe_496'.",
        "order_id": "Id of the order with its '#', e.g. '#W0000000'.",
        "product_id": "Id of the product type, e.g. '6086499569'; not an item id.",
        "item_id": "Id of one variant of a product, e.g. '1008292230'; not a product id.",
        "item_ids": "Ids of the items concerned; an id stands as often as the item.",
        "new_item_ids": "Ids of the items wanted instead, each of the same product and at the same "
        "place in the list as the one it replaces.",
        "payment_method_id": "The customer's payment method that pays or receives the difference, "
        "e.g. 'gift_card_0000000'.",
        "reason": "Either 'no longer needed' or 'ordered by mistake'.",
        "email": "E-mail address, e.g. 'something@example.com'.",
        "first_name": "First name, e.g. 'John'.",
        "last_name": "Last name, e.g. 'Doe'.",
        "zip": "Zip code, e.g. '12345'.",
        "address1": "First line of the address, e.g. '123 Main St'.",
        "address2": "Second line of the address, e.g. 'Apt 1', or ''.",
        "city": "City, e.g. 'San Francisco'.",
        "state": "State, e.g. 'CA'.",
        "country": "Country, e.g. 'USA'.",
    }

    def _find(self, table: str, label: str, key: str) -> Any:
        return self._among(self.db[table], label, key)

    def _among(self, records: Mapping[str, Any], label: str, key: str) -> Any:
        if key not in records:
            raise self._refusal(f"{label} not found")
        return records[key]

    def _order(self, order_id: str) -> Any:
        return self._find("orders", "Order", order_id)

    def _user(self, user_id: str) -> Any:
        return self._find("users", "User", user_id)

    def _method(self, user_id: str, method_id: str) -> Any:
        return self._among(self._user(user_id)["payment_methods"], "Payment method", method_id)

    def _check_balance(self, method: dict[str, Any], amount: float, purpose: str) -> None:
        if method["source"] == "gift_card" and method["balance"] < amount:
            raise self._refusal(f"Insufficient gift card balance to pay for the {purpose}")

    def _payment(self, kind: str, amount: float, method_id: str) -> dict[str, Any]:
        fields = {"transaction_type": kind, "amount": amount, "payment_method_id": method_id}
        return dict(checked(OrderPayment, fields))

    def _credit(self, order: dict[str, Any], method_id: str, amount: float) -> None:
        """Gift cards settle at once; other methods settle outside this world."""
        method = self._method(order["user_id"], method_id)
        if method["source"] == "gift_card":
            method["balance"] = round(method["balance"] + amount, 2)

    def _address(self, **fields: str) -> dict[str, Any]:
        return dict(checked(UserAddress, fields))

    def _check_pending(self, order: dict[str, Any]) -> None:
        """What is asked of an order whose address or payment changes; its items may have."""
        if "pending" not in order["status"]:
            raise self._refusal("Non-pending order cannot be modified")

    def _item(self, order: dict[str, Any], item_id: str) -> Any:
        for item in order["items"]:
            if item["item_id"] == item_id:
                return item
        raise self._refusal(f"Item {item_id} not found")

    def _check_owned(self, order: dict[str, Any], item_ids: Any, refusal: str) -> None:
        """Refuse ids that are asked for more often than the order has them."""
        owned = [item["item_id"] for item in order["items"]]
        for item_id in item_ids:
            if item_ids.count(item_id) > owned.count(item_id):
                raise self._refusal(refusal, item_id)

    def _replacement(self, item: dict[str, Any], new: str) -> Any:
        """The variant that an item is replaced with."""
        product = self._find("products", "Product", item["product_id"])
        variant = self._among(product["variants"], "Variant", new)
        if not variant["available"]:
            raise self._refusal("New item {} not found or available", new)
        return variant

    def _check_new(self, old: str, new: str) -> None:
        if old == new:
            raise self._refusal("The new item id should be different from the old item id")

    def _changed_to(
        self, item: dict[str, Any], new: str, last: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Officially every replaced item takes price and options of the last variant looked up."""
        return last

    @tool("write")
    def cancel_pending_order(self, order_id: str, reason: str) -> Record:
        """Cancel an order that is still pending and refund it. Explain the details and get an
        explicit yes from the customer first. Gift cards are refunded at once, other payment methods
        within 5 to 7 business days."""
        order = self._order(order_id)
        if order["status"] != "pending":
            raise self._refusal("Non-pending order cannot be cancelled")
        if reason not in self.cancel_reasons:
            raise self._refusal("Invalid reason")
        refunds = []
        for payment in order["payment_history"]:
            method_id = payment["payment_method_id"]
            refunds.append(self._payment("refund", payment["amount"], method_id))
            self._credit(order, method_id, payment["amount"])
        order["status"] = "cancelled"
        order["cancel_reason"] = reason
        order["payment_history"].extend(refunds)
        return Record(order)

    @tool("write")
    def exchange_delivered_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Exchange items of a delivered order for others of the same products. An order can be
        returned or exchanged only once. Explain the details and get an explicit yes first."""
        order = self._order(order_id)
        if order["status"] != "delivered":
            raise self._refusal("Non-delivered order cannot be exchanged")
        lacking, unequal = self.exchange_refusals
        self._check_owned(order, item_ids, lacking)
        if len(item_ids) != len(new_item_ids):
            raise self._refusal(unequal)
        difference: float = 0
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = self._item(order, old)
            difference += self._replacement(item, new)["price"] - item["price"]
        difference = round(difference, 2)
        method = self._method(order["user_id"], payment_method_id)
        self._check_balance(method, difference, "price difference")
        order["status"] = "exchange requested"
        order["exchange_items"] = sorted(item_ids)
        order["exchange_new_items"] = sorted(new_item_ids)
        order["exchange_payment_method_id"] = payment_method_id
        order["exchange_price_difference"] = difference
        return Record(order)

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
        raise self._refusal("User not found")

    @tool("read")
    def find_user_id_by_email(self, email: str) -> str:
        """Find a customer's id by e-mail address."""
        for user_id, user in self.db["users"].items():
            if user["email"].lower() == email.lower():
                return str(user_id)
        raise self._refusal("User not found")

    @tool("read")
    def get_order_details(self, order_id: str) -> Record:
        """Look up an order and its status."""
        return Record(self._order(order_id))

    @tool("read")
    def get_product_details(self, product_id: str) -> Record:
        """Look up a product with all its variants."""
        return Record(self._find("products", "Product", product_id))

    @tool("read")
    def get_item_details(self, item_id: str) -> Record:
        """Look up one variant of a product."""
        for product in self.db["products"].values():
            if item_id in product["variants"]:
                return Record(product["variants"][item_id])
        raise self._refusal("Item not found")

    @tool("read")
    def get_user_details(self, user_id: str) -> Record:
        """Look up a customer with their payment methods and orders."""
        return Record(self._user(user_id))

    @tool("read")
    def list_all_product_types(self) -> str:
        """List the names and ids of all product types (there are 50)."""
        names = {p["name"]: p["product_id"] for p in self.db["products"].values()}
        return json.dumps(names, sort_keys=True)

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
    ) -> Record:
        """Change the shipping address of a pending order. Get an explicit yes first."""
        order = self._order(order_id)
        self._check_pending(order)
        order["address"] = self._address(
            address1=address1, address2=address2, city=city, state=state, country=country, zip=zip
        )
        return Record(order)

    @tool("write")
    def modify_pending_order_items(
        self, order_id: str, item_ids: list[str], new_item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Replace items of a pending order by others of the same products. Possible only once for
        an order. Explain the details and get an explicit yes first."""
        order = self._order(order_id)
        if order["status"] != "pending":
            raise self._refusal("Non-pending order cannot be modified")
        self._check_owned(order, item_ids, "{} not found")
        if len(item_ids) != len(new_item_ids):
            raise self._refusal("The number of items to be exchanged should match")
        difference: float = 0
        variant: dict[str, Any] = {}
        for old, new in zip(item_ids, new_item_ids, strict=True):
            self._check_new(old, new)
            item = self._item(order, old)
            variant = self._replacement(item, new)
            difference += variant["price"] - item["price"]
        method = self._method(order["user_id"], payment_method_id)
        self._check_balance(method, difference, "new item")
        kind = "payment" if difference > 0 else "refund"
        order["payment_history"].append(self._payment(kind, abs(difference), payment_method_id))
        self._credit(order, payment_method_id, -difference)
        for old, new in zip(item_ids, new_item_ids, strict=True):
            item = self._item(order, old)
            taken = self._changed_to(item, new, variant)
            item.update(item_id=new, price=taken["price"], options=taken["options"])
        order["status"] = "pending (item modified)"
        return Record(order)

    @tool("write")
    def modify_pending_order_payment(self, order_id: str, payment_method_id: str) -> Record:
        """Change the payment method of a pending order. Get an explicit yes first."""
        order = self._order(order_id)
        self._check_pending(order)
        method = self._method(order["user_id"], payment_method_id)
        history = order["payment_history"]
        if len(history) != 1 or history[0]["transaction_type"] != "payment":
            raise self._refusal("There should be exactly one payment for a pending order")
        old_id, amount = history[0]["payment_method_id"], history[0]["amount"]
        if old_id == payment_method_id:
            raise self._refusal("The new payment method should be different from the current one")
        self._check_balance(method, amount, "order")
        history.append(self._payment("payment", amount, payment_method_id))
        history.append(self._payment("refund", amount, old_id))
        self._credit(order, payment_method_id, -amount)
        self._credit(order, old_id, amount)
        return Record(order)

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
    ) -> Record:
        """Change a customer's default address. Get an explicit yes first."""
        user = self._user(user_id)
        user["address"] = self._address(
            address1=address1, address2=address2, city=city, state=state, country=country, zip=zip
        )
        return Record(user)

    @tool("write")
    def return_delivered_order_items(
        self, order_id: str, item_ids: list[str], payment_method_id: str
    ) -> Record:
        """Return items of a delivered order; the customer gets an e-mail on how to send them back.
        Explain the details and get an explicit yes first."""
        order = self._order(order_id)
        if order["status"] != "delivered":
            raise self._refusal("Non-delivered order cannot be returned")
        method = self._method(order["user_id"], payment_method_id)
        original = order["payment_history"][0]["payment_method_id"]
        if method["source"] != "gift_card" and payment_method_id != original:
            raise self._refusal(self.return_refusal)
        self._check_owned(order, item_ids, "Some item not found")
        order["status"] = "return requested"
        order["return_items"] = sorted(item_ids)
        order["return_payment_method_id"] = payment_method_id
        return Record(order)
