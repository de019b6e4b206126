"""The windows themselves: what elements are grouped by, beside their key, and their binary forms.

A window is the namespace of state and timers, so it is hashed and compared once or twice per
element.  Time and count windows are therefore tuples underneath: hash and comparison run in C.

Snapshots encode windows by themselves; serializers are for assigners written against PyFlink's interface,
which has to name one.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.core.ids import MAX_TIME


class Window(ABC):
    """A group of elements of one key. Subclasses are immutable, hashable and picklable."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The largest event time that still belongs to the window; results are stamped with it."""


if TYPE_CHECKING:  # see penstock.core.type_vars
    from typing_extensions import TypeVar

    W = TypeVar("W", bound=Window, default=Any)
    W2 = TypeVar("W2", bound=Window, default=Any)
else:
    from typing import TypeVar

    W = TypeVar("W", bound=Window)
    W2 = TypeVar("W2", bound=Window)


class _Span(NamedTuple):
    start: int
    end: int


class _MergesSpans(Protocol):
    """As ``MergingWindowAssigner.MergeCallback``."""

    def merge(self, to_be_merged: list[TimeWindow], merge_result: TimeWindow) -> None: ...


class TimeWindow(_Span, Window):
    """The times from ``start`` up to, not including, ``end``. Ordered by start, then end.

    >>> TimeWindow(0, 60_000).max_timestamp()
    59999
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """``end - 1``, held inside 64 bits for elements at the very end of time."""
        return min(self.end - 1, MAX_TIME)

    def intersects(self, other: TimeWindow) -> bool:
        """Whether the two overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Start of the window that ``timestamp`` falls into; floors, also before 1970."""
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: _MergesSpans) -> None:
        """Tell ``callback.merge(to_be_merged, merge_result)`` each group of overlapping windows."""
        merge_spans(windows, callback.merge)


def merge_spans(windows: Iterable[TimeWindow], merge: Callable[[list[TimeWindow], TimeWindow], None]) -> None:
    """Call ``merge`` with each group of two or more windows that overlap or touch, and their cover."""
    group: list[TimeWindow] = []
    cover: TimeWindow | None = None
    for window in sorted(set(windows)):
        if cover is not None and cover.intersects(window):
            group.append(window)
            cover = cover.cover(window)
            continue
        if cover is not None and len(group) > 1:
            merge(group, cover)
        group, cover = [window], window
    if cover is not None and len(group) > 1:
        merge(group, cover)


class _Numbered(NamedTuple):
    id: int


class CountWindow(_Numbered, Window):
    """The ``id``-th group of a fixed number of elements of one key; from ``count_window``.

    >>> CountWindow(3).id
    3
    """

    __slots__ = ()

    def max_timestamp(self) -> int:
        """The end of time: a count window does not know when it is full."""
        return MAX_TIME


class GlobalWindow(Window):
    """The one window that holds all elements of a key. There is a single instance.

    >>> GlobalWindow.get() is GlobalWindow.get()
    True
    """

    __slots__ = ()

    _only: GlobalWindow | None = None

    def __new__(cls) -> GlobalWindow:
        """The single instance, so that identity serves as equality and hash."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    @staticmethod
    def get() -> GlobalWindow:
        """The instance."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """The end of time."""
        return MAX_TIME

    def __reduce__(self) -> tuple[Any, ...]:
        return (GlobalWindow, ())

    def __repr__(self) -> str:
        return "GlobalWindow()"


def long_to_int_with_bit_mixing(x: int) -> int:
    """Spread the bits of ``x``, so that numbers close together hash far apart."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift)) * factor
    return x ^ (x >> 31)


def mod_inverse(x: int) -> int:
    """A number that gives 1 when multiplied by the odd ``x``, in 32-bit arithmetic."""
    inverse = x**3
    for _ in range(3):
        inverse *= 2 - x * inverse
    return inverse


_SPAN = struct.Struct(">qq")
_NUMBER = struct.Struct(">q")


class TimeWindowSerializer:
    """Start and end."""

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        """Append the window to ``stream``."""
        stream.write(_SPAN.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        """Read one window from ``stream``."""
        return TimeWindow(*_SPAN.unpack(stream.read(_SPAN.size)))


class CountWindowSerializer:
    """The number."""

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        """Append the window to ``stream``."""
        stream.write(_NUMBER.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        """Read one window from ``stream``."""
        return CountWindow(*_NUMBER.unpack(stream.read(_NUMBER.size)))


class GlobalWindowSerializer:
    """One zero byte."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        """Append the window to ``stream``."""
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        """Read one window from ``stream``."""
        stream.read(1)
        return GlobalWindow.get()
