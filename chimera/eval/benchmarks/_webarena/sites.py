"""The sites that WebArena's tasks are set on: their URLs, their accounts, whether they answer."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence

from chimera.environments.web.settings import LogIn
from chimera.errors import UsageError

SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "wikipedia", "map", "homepage")
#: Where the sites' log-in forms are, and the accounts that their images come with.
LOG_INS: Mapping[str, tuple[str, str, str]] = {
    "shopping": ("/customer/account/login/", "emma.lopez@gmail.com", "Password.123"),
    "shopping_admin": ("", "admin", "admin1234"),
    "reddit": ("/login", "MarvelsGrantMan136", "test1234"),
    "gitlab": ("/users/sign_in", "byteblaze", "hello1234"),
}


def variables(site: str) -> tuple[str, ...]:
    """The environment variables that may hold a site's URL; the last is upstream's own name."""
    name = site.upper()
    return f"CHIMERA_WEBARENA_{name}", f"WA_{name}", name


def site_urls(given: Mapping[str, str] | Sequence[str] | None = None) -> dict[str, str]:
    """The URL of every configured site, from `given` (also as SITE=URL texts) or the variables."""
    pairs = given or {}
    if not isinstance(pairs, Mapping):
        if wrong := [text for text in pairs if "=" not in text]:
            raise UsageError(f"urls: expected SITE=URL, found {wrong[0]!r}")
        pairs = dict(text.split("=", 1) for text in pairs)
    if unknown := set(pairs) - set(SITES):
        raise UsageError(f"urls: unknown sites {sorted(unknown)}; there are {', '.join(SITES)}")
    found = {
        site: pairs.get(site) or next(filter(None, map(os.environ.get, variables(site))), "")
        for site in SITES
    }
    return {site: url.rstrip("/") for site, url in found.items() if url.startswith("http")}


def site_fault(site: str, url: str | None, timeout: float = 5.0) -> str | None:
    """Why a site cannot be used and what to do, or None when it answers."""
    if not url:
        return f"set {variables(site)[0]} to its address, or --option urls={site}=http://…"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout):
            return None
    except urllib.error.HTTPError:
        return None  # it answers
    except (OSError, ValueError) as error:
        return f"start it: {url} does not answer ({getattr(error, 'reason', error)})"


def log_ins(sites: Iterable[str], urls: Mapping[str, str]) -> tuple[LogIn, ...]:
    """The forms to fill for a task's sites; CHIMERA_WEBARENA_<SITE>_ACCOUNT names another user."""
    found = []
    for site in sites:
        if site in LOG_INS and site in urls:
            path, user, password = LOG_INS[site]
            if account := os.environ.get(f"CHIMERA_WEBARENA_{site.upper()}_ACCOUNT"):
                user, _, password = account.partition(":")
            found.append(LogIn(urls[site] + path, user, password))
    return tuple(found)
