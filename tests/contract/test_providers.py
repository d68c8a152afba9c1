"""What every service keeps: its provider is a value that says who it is and never tells its key."""

from __future__ import annotations

import json
import pickle

import pytest

from chimera.providers import create_provider
from chimera.providers.factory import SERVICES

KEY = "sk-contract-0123456789abcdef"
services = pytest.mark.parametrize("service", sorted(SERVICES))


@services
def test_it_is_a_value_that_says_who_it_is(service: str):
    provider = create_provider(f"{service}/some-model", api_key=KEY)
    again = pickle.loads(pickle.dumps(provider))

    assert again.identity() == provider.identity()
    assert "some-model" in json.dumps(provider.identity())


@services
def test_it_never_tells_its_key(service: str):
    provider = create_provider(f"{service}/some-model", api_key=KEY)

    assert KEY not in json.dumps(provider.identity())
    assert KEY not in repr(provider)
