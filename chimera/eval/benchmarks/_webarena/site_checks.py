"""The helpers that WebArena's checks name: questions to the shop, the forum and the code host.

Upstream evaluates the text of the call, into which the page's URL was pasted. Here the call is
parsed when the task is read, so a URL is never more than an argument.
"""

from __future__ import annotations

import ast
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlparse

from chimera.environments.web import ScriptError
from chimera.errors import GraderError

if TYPE_CHECKING:
    from chimera.eval.benchmarks._webarena.grading import WebPage

LAST_URL = "__last_url__"
PAGE = "__page__"

#: name → the arguments it takes ("page" is the live page)
URL_HELPERS: Mapping[str, tuple[str, ...]] = {
    "reddit_get_post_url": ("url",),
    "shopping_get_latest_order_url": (),
}
CONTENT_HELPERS: Mapping[str, tuple[str, ...]] = {
    "gitlab_get_project_memeber_role": ("page", "account"),  # spelled so in the data
    "shopping_get_sku_latest_review_author": ("sku",),
    "shopping_get_sku_latest_review_rating": ("sku",),
}


@dataclass(frozen=True, slots=True)
class HelperCall:
    """A helper's name and its text arguments."""

    name: str
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


def parse_helper(text: str) -> HelperCall:
    """`func:name('argument')` as a value; a `ValueError` for anything else."""
    try:
        call = ast.parse(text.removeprefix("func:").strip(), mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.keywords:
        raise ValueError(f"not a helper call: {text!r}")
    arguments: list[str] = []
    for argument in call.args:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            arguments.append(argument.value)
        elif isinstance(argument, ast.Name) and argument.id == PAGE:
            arguments.append(PAGE)
        else:
            raise ValueError(f"not a helper call: {text!r}")
    expected = {**URL_HELPERS, **CONTENT_HELPERS}.get(call.func.id)
    if expected is None or len(expected) != len(arguments):
        raise ValueError(f"unknown helper: {text!r}")
    return HelperCall(call.func.id, tuple(arguments))


_MEMBER_ROLE = """account => {
  const names = [...document.querySelectorAll(
    "td[data-label='Account'] span.gl-avatar-labeled-sublabel")];
  const row = names.findIndex(name => name.outerText === '@' + account);
  return document.querySelectorAll("td.col-max-role span")[row].outerText;
}"""


@dataclass(frozen=True, slots=True)
class SiteHelpers:
    """Answers helper calls for one set of sites; the shop's REST interface needs its admin."""

    sites: Mapping[str, str] = field(default_factory=dict)
    shop_admin: tuple[str, str] = ("admin", "admin1234")
    timeout: float = 60.0

    def url(self, call: HelperCall, last_url: str) -> str:
        if call.name == "reddit_get_post_url":
            return post_url(call.arguments[0].replace(LAST_URL, last_url))
        if call.name == "shopping_get_latest_order_url":
            return self._latest_order_url()
        raise GraderError(f"{call} does not name a page")

    def content(self, call: HelperCall, page: WebPage) -> str:
        if call.name == "gitlab_get_project_memeber_role":
            return _member_role(page, call.arguments[1])
        reviews = self._reviews(call.arguments[0])
        if not reviews:
            return ""
        try:
            if call.name == "shopping_get_sku_latest_review_author":
                return str(reviews[-1]["nickname"])
            return str(reviews[-1]["ratings"][0]["percent"])
        except (KeyError, IndexError, TypeError) as error:
            raise GraderError(f"{call}: the shop's answer has another shape: {error!r}") from None

    def _latest_order_url(self) -> str:
        query = {
            "searchCriteria[sortOrders][0][field]": "created_at",
            "searchCriteria[sortOrders][0][direction]": "DESC",
            "searchCriteria[pageSize]": "1",
        }
        answer = self._shop(f"/rest/V1/orders?{urlencode(query)}", token=self._shop_token())
        try:
            number = int(answer["items"][0]["increment_id"])
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise GraderError(f"the shop did not name its latest order: {error!r}") from None
        return f"{self._shop_url()}/sales/order/view/order_id/{number}/"

    def _reviews(self, sku: str) -> list[Any]:
        path = f"/rest/V1/products/{quote(sku, safe='')}/reviews"
        answer = self._shop(path, token=self._shop_token())
        if not isinstance(answer, list):
            raise GraderError(f"the shop's reviews of {sku} are not a list")
        return answer

    def _shop_token(self) -> str:
        user, password = self.shop_admin
        answer = self._shop(
            "/rest/default/V1/integration/admin/token",
            body={"username": user, "password": password},
        )
        if not isinstance(answer, str):
            raise GraderError("the shop gave its admin no token")
        return answer

    def _shop_url(self) -> str:
        if not self.sites.get("shopping"):
            raise GraderError("this check asks the shop, and no URL is set for 'shopping'")
        return self.sites["shopping"].rstrip("/")

    def _shop(self, path: str, *, token: str = "", body: Any = None) -> Any:
        request = urllib.request.Request(
            self._shop_url() + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=self.timeout) as response:
                return json.load(response)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise GraderError(f"the shop does not answer {path}: {error}", retryable=True) from None


def post_url(url: str) -> str:
    """The post that a page of the forum belongs to: /f/FORUM/ID/…; any other URL unchanged."""
    parsed = urlparse(url)
    parts = parsed.path.split("/")
    if len(parts) < 4 or parts[1] != "f":
        return url
    return f"{parsed.scheme}://{parsed.netloc}/f/{parts[2]}/{parts[3]}/"


def _member_role(page: WebPage, account: str) -> str:
    try:
        return str(page.evaluate(_MEMBER_ROLE, account))
    except ScriptError:
        return ""
