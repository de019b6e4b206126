"""Binary forms of windows: big-endian 64-bit numbers.

Snapshots encode windows by themselves; these classes are for assigners written against PyFlink's
interface, which has to name one.
"""

from __future__ import annotations

import struct
from io import BytesIO

from penstock.operators.window.windows import CountWindow, GlobalWindow, TimeWindow

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
