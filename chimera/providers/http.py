"""How every client here talks HTTP: it follows no redirect, which would show the key to another
host, and reads no body to an end that it may not have."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

MOST_BODY_BYTES = 64 * 1024**2
MOST_REFUSAL_BYTES = 64 * 1024


def client_settings() -> dict[str, Any]:
    """What an HTTP client of the SDKs, or one of our own, is made with."""
    return {"follow_redirects": False, "event_hooks": {"response": [_bound]}}


def _bound(response: Any) -> None:
    """Let the body end at the most that is read of it, or with the call's time."""
    library: Any = sys.modules[type(response).__module__.partition(".")[0]]
    inner, timeout = response.stream, response.request.extensions.get("timeout", {}).get("read")
    end = None if timeout is None else time.monotonic() + timeout
    most = MOST_BODY_BYTES + 1 if response.status_code == 200 else MOST_REFUSAL_BYTES

    class Bounded(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            size = 0
            for part in inner:
                yield part
                size += len(part)
                if size >= most:
                    return
                if end is not None and time.monotonic() > end:
                    raise library.ReadTimeout("the body had not arrived whole", request=None)

        def close(self) -> None:
            inner.close()

    response.stream = Bounded()
