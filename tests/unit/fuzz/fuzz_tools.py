"""What the fuzz tests share: how many examples, bytes that are nearly right, and bounds on time and memory.

``PENSTOCK_FUZZ=1`` runs the profile "long", which looks for new examples.
"""

from __future__ import annotations

import os
import socket
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

MOST_BYTES = 64 << 20
MOST_SECONDS = 5.0

for _name, _examples in (("short", 100), ("long", 5_000)):
    settings.register_profile(
        f"fuzz-{_name}",
        max_examples=_examples,
        deadline=None,
        database=None,
        derandomize=_name == "short",
        suppress_health_check=list(HealthCheck),
    )
FUZZ = settings.get_profile("fuzz-long" if os.environ.get("PENSTOCK_FUZZ") == "1" else "fuzz-short")
"""Decorate fuzz tests with this."""

_ODD = st.sampled_from(
    [b"\0" * 4, b"\xff" * 4, b"\xff" * 8, b"\0\0\0\x40", b"\x7f", b"-1", b"[", b"null", b"\xed\xa0\x80"]
)
_PIECE = st.one_of(st.binary(max_size=12), _ODD)
_EDIT = st.tuples(
    st.sampled_from(["set", "insert", "delete", "repeat", "cut"]), st.integers(0, 1 << 16), _PIECE
)


def mutated(*valid: bytes) -> st.SearchStrategy[bytes]:
    """One of the valid inputs after some small accidents; sometimes none."""
    return st.builds(_mutate, st.sampled_from(valid), st.lists(_EDIT, max_size=4))


def _mutate(data: bytes, edits: list[tuple[str, int, bytes]]) -> bytes:
    for kind, where, piece in edits:
        at = where % (len(data) + 1)
        if kind == "set":
            data = data[:at] + piece + data[at + len(piece) :]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind == "delete":
            data = data[:at] + data[at + len(piece) + 1 :]
        elif kind == "repeat":
            data = data[:at] + data[max(0, at - 40) : at] + data[at:]
        else:
            data = data[:at]
    return data


_POOL = pa.proxy_memory_pool(pa.default_memory_pool())
"""Counts what Arrow allocates; lives for ever, since arrays may outlive the test that made them."""


@contextmanager
def bounded() -> Iterator[None]:
    """What happens inside takes little time and memory, in Python and in Arrow."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(_POOL)
    tracemalloc.start(1)
    began = time.thread_time()
    try:
        yield
    finally:
        took = time.thread_time() - began  # what it does itself: a busy machine adds nothing to that
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert took < MOST_SECONDS, f"took {took:.1f} s"
    assert peak < MOST_BYTES, f"Python held {peak} bytes"
    assert _POOL.max_memory() < MOST_BYTES, f"Arrow held {_POOL.max_memory()} bytes"


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets."""
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` cut at the given places."""
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
