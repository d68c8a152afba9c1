"""Values that are dear to make and depend on nothing but their key, kept between runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chimera.eval.data.datasets import cache_dir
from chimera.sandbox.inner import codec


def plain_data(area: str, key: str, make: Callable[[], Any]) -> Any:
    """The stored plain value of `key`, or what `make` returns, stored for the next time.

    A damaged entry is made anew; a cache that cannot be written is only slow.
    """
    file = cache_dir() / area / f"{key}.json"
    try:
        return codec.load(file.read_bytes())
    except (OSError, codec.Malformed):
        pass
    value = make()
    content = codec.dump(value)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as stream:
            stream.write(content)
        Path(stream.name).replace(file)
    except OSError:
        pass
    return codec.load(content)
