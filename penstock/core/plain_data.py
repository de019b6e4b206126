"""Plain values as bytes that name nothing to call: what is stored and sent in place of pickles.

::

    value    := u8 tag | body
    sequence := nothing, if it is empty
              | u8 count (1 to 255) | a tag for each item | head | bodies
              | 0 | u8 tag of all items | u32 count | head | bodies
              | 0 | "S" | u32 count | texts with a zero byte between any two
              | 0 | "T" | u32 count | sequence of tuples: the columns of a table, whose rows the items are
              | 0 | "P" | u32 count | a pickle of them all, as a list

The head has, for each item in order, a number (``i``, ``f``, ``?``) itself, and of anything else the u32
length of its body; the bodies stand behind.  All numbers are little endian.  Which values have which tags is
in ``docs/format.md``.

Only the very type of a value counts: a subclass is another type.  Values come back as they went in, except
that two references to one object within a value become two objects.  A :class:`Codec` that is given a way to
pickle does so with the values that have no tag; one without refuses them.  Decoding never calls anything that
the bytes choose: a class of Penstock is found by name and made of its fields (:mod:`own_data`).
"""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any

from penstock.core.error_codes import Code
from penstock.core.errors import CorruptSnapshotError, SnapshotError
from penstock.core.keys import NAN
from penstock.core.own_data import (
    form_of,
    is_member,
    member,
    member_head,
    own_head,
    own_maker,
    read_row_head,
    row_head,
)
from penstock.core.plain_scalars import BODIES, READERS, Body, Reader, UnfitError
from penstock.core.row import Row

_FIXED = {b"i"[0]: "q", b"f"[0]: "d", b"?"[0]: "?"}
"""Numbers stand in the head of a sequence; of others their lengths."""
_INT, _BIG, _TEXT, _TEXTS, _TUPLE, _TABLE, _ANY, _OPAQUE, _PICKLES, _OWN, _MEMBER = b"iIsStTvpPDE"
_TAGS: dict[type, int] = {
    type(None): b"n"[0],
    bool: b"?"[0],
    int: _INT,
    float: b"f"[0],
    str: _TEXT,
    bytes: b"b"[0],
    bytearray: b"B"[0],
    tuple: _TUPLE,
    list: b"l"[0],
    dict: b"m"[0],
    set: b"h"[0],
    frozenset: b"H"[0],
    Decimal: b"e"[0],
    dt.date: b"d"[0],
    dt.datetime: b"z"[0],
    dt.time: b"c"[0],
    dt.timedelta: b"g"[0],
    uuid.UUID: b"u"[0],
    Row: b"R"[0],
    type(NAN): b"N"[0],
}
_SHORT = struct.Struct("<H")
_RUN = struct.Struct("<BBI")
_TWO = struct.Struct("<BI")
_TOO_MUCH = (struct.error, OverflowError, RecursionError, TypeError, UnicodeEncodeError)
"""What values that are too large, too deep, or within themselves, and halves of characters come to."""
_NEAR = 32
"""Sequences of so many items have layouts that are remembered."""
_MOST_LAYOUTS = 4096


class _Layout:
    """Sequences whose items have these tags."""

    __slots__ = ("pack", "prefix", "size", "unpack", "variable")

    def __init__(self, prefix: bytes, tags: bytes) -> None:
        head = struct.Struct("<" + "".join([_FIXED.get(tag, "I") for tag in tags]))
        self.prefix = prefix
        self.pack, self.unpack, self.size = head.pack, head.unpack_from, head.size
        self.variable = [(place, tag) for place, tag in enumerate(tags) if tag not in _FIXED]


_layouts: dict[bytes, _Layout] = {}


def _layout(tags: bytes) -> _Layout:
    found = _layouts.get(tags)
    if found is None:
        found = _Layout(bytes((len(tags),)) + tags, tags)
        if len(tags) <= _NEAR:
            if len(_layouts) >= _MOST_LAYOUTS:
                _layouts.clear()
            _layouts[tags] = found
    return found


class _Tags(dict[type, int]):
    """The tag of each type; what is not known yet is a class of ours, or opaque."""

    def __init__(self, opaque: bool) -> None:
        super().__init__(_TAGS)
        self._opaque = opaque

    def __missing__(self, kind: type) -> int:
        if is_member(kind):
            found = _MEMBER
        elif form_of(kind) is not None:
            found = _OWN
        elif self._opaque:
            return _OPAQUE  # not remembered: a program may make classes without end
        else:
            raise UnfitError(kind.__name__)
        self[kind] = found
        return found


class Codec:
    """Values to bytes and back; ``dumps`` and ``loads`` are for the values that have no tag."""

    def __init__(
        self, dumps: Callable[[Any], bytes] | None = None, loads: Callable[[bytes], Any] | None = None
    ) -> None:
        self._tag_of = _Tags(dumps is not None).__getitem__
        self._known: dict[tuple[type, ...], _Layout] = {}
        """Layouts of short sequences, by the types of their items."""
        self._bodies: dict[int, Body] = {
            **BODIES,
            _TUPLE: self._sequence,
            b"l"[0]: self._sequence,
            b"h"[0]: lambda value: self._sequence(list(value)),
            b"H"[0]: lambda value: self._sequence(list(value)),
            b"m"[0]: self._map,
            b"R"[0]: self._row,
            _OWN: self._own,
            _MEMBER: member_head,
            _ANY: self._any,
        }
        sequence = self._read_sequence
        self._readers: dict[int, Reader] = {
            **READERS,
            _TUPLE: lambda data, start, end: tuple(sequence(data, start, end)),
            b"l"[0]: sequence,
            b"h"[0]: lambda data, start, end: set(sequence(data, start, end)),
            b"H"[0]: lambda data, start, end: frozenset(sequence(data, start, end)),
            b"m"[0]: self._read_map,
            b"R"[0]: self._read_row,
            _OWN: self._read_own,
            _MEMBER: lambda data, start, end: member(data[start:end]),
            _ANY: self._read_any,
        }
        if dumps is not None and loads is not None:
            self._bodies[_OPAQUE] = dumps
            self._readers[_OPAQUE] = lambda data, start, end: _unpickled(loads, data[start:end])

    def encode(self, value: Any) -> bytes:
        """The bytes of a value; :class:`UnfitError` if the format cannot hold it and nothing is pickled."""
        try:
            return self._any(value)
        except (UnfitError, *_TOO_MUCH) as error:
            if _OPAQUE not in self._bodies:
                raise UnfitError(type(value).__name__) from error
        return bytes((_OPAQUE,)) + self._bodies[_OPAQUE](value)

    def decode(self, data: bytes) -> Any:
        """The value; a :class:`SnapshotError` whatever the bytes are."""
        try:
            return self._read_any(data, 0, len(data))
        except SnapshotError:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"  # not its repr, which may quote all of the data
            raise CorruptSnapshotError(f"stored data is not readable: {why}: {data[:40]!r}") from error

    # --- values -----------------------------------------------------------------------------

    def _any(self, value: Any) -> bytes:
        tag = self._tag_of(type(value))
        if tag == _INT:
            tag = _tag_of_int(value)
        return bytes((tag,)) + self._bodies[tag](value)

    def _read_any(self, data: bytes, start: int, end: int) -> Any:
        if start >= end:
            raise ValueError("a value is missing")
        return self._readers[data[start]](data, start + 1, end)

    # --- sequences --------------------------------------------------------------------------

    def _sequence(self, items: Sequence[Any]) -> bytes:
        kinds = tuple(map(type, items))
        layout = self._known.get(kinds)
        try:
            if layout is not None:
                return self._laid_out(layout, items)
            return self._new_sequence(kinds, items)
        except struct.error:  # an integer of more than 64 bits, or something of more than 4 GB
            tags = bytes(
                [
                    _tag_of_int(item) if kind is int else self._tag_of(kind)
                    for kind, item in zip(kinds, items, strict=True)
                ]
            )
            if _BIG not in tags:
                raise
            return self._of_tags(tags, items)

    def _new_sequence(self, kinds: tuple[type, ...], items: Sequence[Any]) -> bytes:
        count = len(kinds)
        if count > _NEAR and kinds.count(kinds[0]) == count:
            return self._run(self._tag_of(kinds[0]), items)
        tags = bytes(map(self._tag_of, kinds))
        if 0 < count <= _NEAR and _OPAQUE not in tags:
            if len(self._known) >= _MOST_LAYOUTS:
                self._known.clear()
            self._known[kinds] = _layout(tags)
        return self._of_tags(tags, items)

    def _of_tags(self, tags: bytes, items: Sequence[Any]) -> bytes:
        count = len(tags)
        if not count:
            return b""
        return self._run(_ANY, items) if count > 255 else self._laid_out(_layout(tags), items)

    def _laid_out(self, layout: _Layout, items: Sequence[Any]) -> bytes:
        if not layout.variable:
            return layout.prefix + layout.pack(*items)
        head = list(items)
        parts = [layout.prefix, b""]
        bodies = self._bodies
        for place, tag in layout.variable:
            body = bodies[tag](head[place])
            head[place] = len(body)
            parts.append(body)
        parts[1] = layout.pack(*head)
        return b"".join(parts)

    def _run(self, tag: int, items: Sequence[Any]) -> bytes:
        """Many items of one kind."""
        count = len(items)
        if tag == _TEXT:
            joined = "\0".join(items)
            if joined.count("\0") == count - 1:
                return _RUN.pack(0, _TEXTS, count) + joined.encode()
        if tag == _TUPLE and items[0] and len(set(map(len, items))) == 1:
            return _RUN.pack(0, _TABLE, count) + self._sequence(list(zip(*items, strict=True)))
        if tag == _OPAQUE:
            return _RUN.pack(0, _PICKLES, count) + self._bodies[_OPAQUE](list(items))
        prefix = _RUN.pack(0, tag, count)
        if tag in _FIXED:
            return prefix + struct.pack(f"<{count}{_FIXED[tag]}", *items)
        bodies = list(map(self._bodies[tag], items))
        return b"".join((prefix, struct.pack(f"<{count}I", *map(len, bodies)), *bodies))

    def _read_sequence(self, data: bytes, start: int, end: int) -> list[Any]:
        if start == end:
            return []
        count = data[start]
        if not count:
            return self._read_run(data, start, end)
        position = start + 1 + count
        tags = data[start + 1 : position]
        layout = _layouts.get(tags) or _layout(tags)
        found: list[Any] = list(layout.unpack(data, position))
        position += layout.size
        readers = self._readers
        for place, tag in layout.variable:
            stop = position + found[place]
            if stop > end:
                raise ValueError("an item is longer than what it is in")
            found[place] = readers[tag](data, position, stop)
            position = stop
        if position != end:
            raise ValueError("a sequence is not as long as it says")
        return found

    def _read_run(self, data: bytes, start: int, end: int) -> list[Any]:
        _, tag, count = _RUN.unpack_from(data, start)
        position = start + _RUN.size
        if tag == _TEXTS:
            return _read_texts(count, data[position:end])
        if tag == _PICKLES:
            return _read_pickles(count, self._readers[_OPAQUE](data, position, end))
        if tag == _TABLE:
            return _read_table(count, self._read_sequence(data, position, end))
        head = f"<{count}{_FIXED.get(tag, 'I')}"
        found = list(struct.unpack_from(head, data, position))
        position += struct.calcsize(head)
        if tag not in _FIXED:
            reader = self._readers[tag]
            bounds = list(accumulate(found, initial=position))
            position = bounds[-1]
            if position <= end:
                found = [reader(data, first, stop) for first, stop in pairwise(bounds)]
        if position != end:
            raise ValueError("a sequence is not as long as it says")
        return found

    def _map(self, value: dict[Any, Any]) -> bytes:
        """All keys, then all values: one sequence if that is short, else two behind a zero byte."""
        if 2 * len(value) <= _NEAR:
            return self._sequence([*value, *value.values()])
        keys = self._sequence(list(value))
        return b"".join((_TWO.pack(0, len(keys)), keys, self._sequence(list(value.values()))))

    def _read_map(self, data: bytes, start: int, end: int) -> dict[Any, Any]:
        if start == end or data[start]:
            items = self._read_sequence(data, start, end)
            half = len(items) // 2
            return dict(zip(items[:half], items[half:], strict=True))
        position = start + _TWO.size
        middle = position + _TWO.unpack_from(data, start)[1]
        if middle > end:
            raise ValueError("the keys of a map are longer than the map")
        keys = self._read_sequence(data, position, middle)
        return dict(zip(keys, self._read_sequence(data, middle, end), strict=True))

    # --- what has names ---------------------------------------------------------------------

    def _row(self, value: Row) -> bytes:
        head = row_head(value._fields, value._kind)
        return b"".join((_SHORT.pack(len(head)), head, self._sequence(value._values)))

    def _read_row(self, data: bytes, start: int, end: int) -> Row:
        middle = start + 2 + _SHORT.unpack_from(data, start)[0]
        fields, kind = read_row_head(data[start + 2 : middle])
        values = self._read_sequence(data, middle, end)
        (row,) = Row.many(fields, (values,))
        row._kind = kind
        return row

    def _own(self, value: Any) -> bytes:
        kind: Any = type(value)
        head, parts = own_head(kind)
        return b"".join((_SHORT.pack(len(head)), head, self._sequence(parts(value))))

    def _read_own(self, data: bytes, start: int, end: int) -> Any:
        middle = start + 2 + _SHORT.unpack_from(data, start)[0]
        make = own_maker(data[start + 2 : middle])
        return make(self._read_sequence(data, middle, end))


def _tag_of_int(value: int) -> int:
    return _INT if -(1 << 63) <= value < 1 << 63 else _BIG


def _read_texts(count: int, data: bytes) -> list[Any]:
    found: list[Any] = data.decode().split("\0")
    if len(found) != count:
        raise ValueError("there are not as many texts as it says")
    return found


def _read_pickles(count: int, found: Any) -> list[Any]:
    if type(found) is not list or len(found) != count:
        raise ValueError("there are not as many objects as it says")
    return found


def _read_table(count: int, columns: list[Any]) -> list[Any]:
    if not columns or any(type(column) is not tuple or len(column) != count for column in columns):
        raise ValueError("a table has no columns, or one that is too short or too long")
    return list(zip(*columns, strict=True))


def _unpickled(loads: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return loads(data)
    except SnapshotError:
        raise
    except Exception as error:
        raise SnapshotError(
            f"a stored object cannot be unpickled: {error!r}. If its class is gone, bring it back under its "
            "old name",
            code=Code.CLASS_GONE,
        ) from error
