"""Descriptors through a tunnel behave like pipes, whatever the other end says."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chimera.environments.remote.tunnel import DATA, HEADER, OPEN, PASS, Serve, Tunnel


@pytest.fixture
def joined() -> Iterator[Callable[[Serve], Tunnel]]:
    """`joined(serve)`: the near end of a tunnel whose far end serves."""
    ends: list[tuple[Tunnel, threading.Thread, list[int]]] = []

    def join(serve: Serve) -> Tunnel:
        there, from_here = os.pipe()
        here, from_there = os.pipe()
        near, far = Tunnel(here, from_here), Tunnel(there, from_there, serve)
        for tunnel in (near, far):
            thread = threading.Thread(target=tunnel.run)
            thread.start()
            ends.append((tunnel, thread, []))
        ends[-1][2].extend((there, from_here, here, from_there))
        return near

    yield join
    for tunnel, _, _ in ends:
        tunnel.close()
    for _, thread, descriptors in ends:
        thread.join(10)
        for descriptor in descriptors:
            os.close(descriptor)


def echo(order: bytes, descriptors: list[int]) -> socket.socket:
    """Copies its first stream to its second, then says on the channel how much that was."""
    mine, theirs = socket.socketpair()

    def copy() -> None:
        with (
            theirs,
            suppress(OSError),
            os.fdopen(descriptors[0], "rb") as source,
            os.fdopen(descriptors[1], "wb", buffering=0) as target,
        ):
            total = 0
            while data := source.read1():
                total += os.write(target.fileno(), data)
            theirs.sendall(str(total).encode())

    threading.Thread(target=copy, daemon=True).start()
    return mine


def ask(tunnel: Tunnel) -> tuple[socket.socket, int, int]:
    mine, theirs = socket.socketpair()
    source, given = os.pipe()
    taken, target = os.pipe()
    tunnel.request(b"R", theirs, [source, target])
    return mine, given, taken


def test_what_goes_in_comes_out_and_the_end_is_told_last(joined):
    channel, given, taken = ask(joined(echo))
    content = os.urandom(5_000_000)

    def feed() -> None:
        with os.fdopen(given, "wb") as file:
            file.write(content)

    threading.Thread(target=feed).start()
    with os.fdopen(taken, "rb") as file:
        assert file.read() == content
    with channel:
        assert channel.recv(100) == b"5000000"
        assert channel.recv(100) == b""


def test_one_that_nobody_reads_does_not_stop_the_others(joined):
    tunnel = joined(echo)
    full, given, ignored = ask(tunnel)
    threading.Thread(target=_fill, args=(given,), daemon=True).start()
    channel, second, taken = ask(tunnel)
    os.write(second, b"hello")
    os.close(second)

    assert os.read(taken, 100) == b"hello"
    assert channel.recv(100) == b"5"
    for each in (full, channel):
        each.close()
    os.close(taken)
    os.close(ignored)


def _fill(descriptor: int) -> None:
    try:
        for _ in range(100):
            os.write(descriptor, bytes(1 << 20))
    except OSError:
        return
    finally:
        os.close(descriptor)


def test_a_file_that_is_passed_on_comes_as_a_pipe(joined, tmp_path):
    (tmp_path / "file").write_bytes(b"content" * 100_000)

    def opened(order: bytes, descriptors: list[int]) -> socket.socket:
        mine, theirs = socket.socketpair()
        with theirs, (tmp_path / "file").open("rb") as file:
            socket.send_fds(theirs, [b"{}\n"], [file.fileno()])
        return mine

    mine, theirs = socket.socketpair()
    joined(opened).request(b"F", theirs, [])
    with mine:
        said, descriptors, _, _ = socket.recv_fds(mine, 100, 1)

    assert said == b"{}\n"
    with os.fdopen(descriptors[0], "rb") as file:
        assert file.read() == b"content" * 100_000


def test_requests_end_when_the_tunnel_does(joined):
    tunnel = joined(echo)
    channel, given, taken = ask(tunnel)
    tunnel.close()

    with channel:
        assert channel.recv(1) == b""
    assert os.read(taken, 1) == b""
    os.close(given)
    os.close(taken)
    late, given, taken = ask(tunnel)
    with late:
        assert late.recv(1) == b""
    os.close(given)
    os.close(taken)


frames = st.one_of(
    st.binary(max_size=200),
    st.builds(
        lambda number, kind, content: HEADER.pack(number, kind, len(content)) + content,
        st.integers(0, 5), st.integers(0, 8), st.binary(max_size=64),
    ),
    st.just(HEADER.pack(1, DATA, 1 << 31)),
    st.just(HEADER.pack(1, OPEN, 2) + b"[]"),
    st.just(HEADER.pack(1, PASS, 1) + b"x"),
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(frames, max_size=8))
def test_nonsense_ends_the_tunnel_and_nothing_else(said):
    here, from_there = os.pipe()
    there, from_here = os.pipe()
    tunnel = Tunnel(here, from_here)
    thread = threading.Thread(target=tunnel.run)
    thread.start()
    channel, given, taken = ask(tunnel)
    os.write(from_there, b"".join(said))
    os.close(from_there)
    thread.join(10)

    assert not thread.is_alive()
    assert tunnel.lost
    channel.close()
    for descriptor in (given, taken, here, there, from_here):
        os.close(descriptor)
