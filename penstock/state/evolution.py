"""From the state that a snapshot holds to the state that a program declares.

Rules, in this order:

1. the version grew: the functions registered with ``with_version`` are applied, one per step;
2. the types are equal: nothing to do;
3. ROW fields were added (they get their default, else ``None``), removed, reordered, or widened: each value
   is rebuilt.  Fields are matched by name;
4. the state had no type and now has one: fine if every value fits the type; it loses its type: fine;
5. anything else is refused, with both types spelled out.

Independently of that a time to live may come (everything counts as touched just now) or go.  Kinds, and
the type of a map's keys, cannot change.

Keys are brought to what keys are today.  Older versions held some equal keys apart (see ``docs/format.md``,
key groups): each NaN was a key of its own, and a few kinds of keys had other hashes.  What has become of them
is checked here: nothing is lost unseen.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.error_codes import Code
from penstock.core.errors import KeyError_, SnapshotError
from penstock.core.keygroups import hash_values, key_groups
from penstock.core.keys import canonical_keys
from penstock.core.row import Row
from penstock.core.type_tree import (
    BasicType,
    BasicTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.state.backend import EntryShape, TableBlock
from penstock.state.columns import row_names
from penstock.state.descriptors import StateDescriptor
from penstock.state.schema import ANY, StateKind, StateSchema, type_lines

Convert = Callable[[Any], Any]

_INTEGERS = [BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT]
_WIDER: dict[BasicType, set[BasicType]] = {
    **{kind: set(_INTEGERS[place + 1 :]) for place, kind in enumerate(_INTEGERS)},
    BasicType.FLOAT: {BasicType.DOUBLE},
    BasicType.CHAR: {BasicType.STRING},
}
for _small in _INTEGERS[:3]:
    _WIDER[_small] |= {BasicType.FLOAT, BasicType.DOUBLE}
_FLOATING = (BasicTypeInfo(BasicType.FLOAT), BasicTypeInfo(BasicType.DOUBLE))
_PICKLED_COSTS = (
    "state without a declared type is pickled: it cannot evolve by itself, breaks when its classes move, and "
    "cannot be read by other programs"
)


@dataclass(frozen=True)
class Migration:
    """What is to be done with the entries of a restored table."""

    convert: Convert | None
    """Applied to each stored value; ``None`` leaves them as they are."""
    must_fit: StateSchema | None = None
    """Before that, all values must fit this schema."""


def plan_migration(
    stored: StateSchema | None, declared: StateSchema, descriptor: StateDescriptor, stamp: int
) -> Migration:
    """How stored values become declared ones; refuses what cannot.

    ``stored`` is ``None`` for blocks that describe nothing (format 1): they are taken for what is declared,
    in version 1 and untimed.  ``stamp`` is the time that untimed values get if they are timed from now on.
    """
    if stored is None:
        stored = StateSchema(declared.kind, declared.type, declared.key_type)
    problems: list[str] = []
    if stored.kind is not declared.kind:
        problems.append(f"{stored.kind.value} state cannot become {declared.kind.value} state")
    if ANY not in (stored.key_type, declared.key_type) and stored.key_type != declared.key_type:
        problems.append("the type of a map's keys cannot change")
    must_fit = None
    if stored.version != declared.version:
        item = _chain(stored.version, declared.version, descriptor.migrations, problems)
    elif ANY in (stored.type, declared.type):
        item = None
        if stored.type != declared.type and stored.type == ANY:
            must_fit = StateSchema(stored.kind, declared.type, declared.key_type, ttl=stored.ttl)
    else:
        item = _evolve(stored.type, declared.type, descriptor.defaults, "", problems)
    if problems:
        raise refusal(descriptor.get_name(), stored, declared, problems)
    return Migration(_through(declared.kind, _timed(item, stored.ttl, declared.ttl, stamp)), must_fit)


def refusal(name: str, stored: StateSchema, declared: StateSchema, problems: list[str]) -> SnapshotError:
    """The error that spells the difference out."""
    lines = [f"state {name!r} in the snapshot does not fit its declaration"]
    for label, schema in (("stored", stored), ("declared", declared)):
        text = f"  {label}: {schema.kind.value}, version {schema.version}, "
        if schema.kind is StateKind.MAP:
            text += f"keys {' '.join(type_lines(schema.key_type))}, values "
        first, *rest = type_lines(schema.type, "  ")
        lines += [text + first, *rest]
    lines += [f"  {problem}" for problem in problems]
    if ANY in (stored.type, declared.type):
        lines.append(f"  {_PICKLED_COSTS}")
    up = max(stored.version, declared.version - 1)
    lines.append(
        f"Say how old values become new ones, descriptor.with_version({up + 1}, migrate={{{up}: function}}), "
        "or give the state another name to start it empty"
    )
    return SnapshotError("\n".join(lines))


def does_not_fit(name: str, stored: StateSchema | None, declared: StateSchema) -> SnapshotError:
    """The refusal of pickled values that are not of the type declared now."""
    stored = stored or StateSchema(declared.kind)
    return refusal(name, stored, declared, ["not all stored values are of the type declared now"])


def _chain(old: int, new: int, migrations: Mapping[int, Convert], problems: list[str]) -> Convert | None:
    if old > new:
        problems.append(f"the snapshot is of version {old}, newer than the program's version {new}")
        return None
    missing = [step for step in range(old, new) if step not in migrations]
    if missing:
        problems.append(f"no function is registered for version {missing[0]} to {missing[0] + 1}")
        return None
    steps = [migrations[step] for step in range(old, new)]

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value)
        return value

    return convert


def _evolve(
    old: TypeInformation, new: TypeInformation, defaults: Mapping[str, Any], path: str, problems: list[str]
) -> Convert | None:
    """A function for one value, or ``None`` if values stay as they are."""
    if old == new or new == ANY:
        return None
    if isinstance(old, RowTypeInfo) and isinstance(new, RowTypeInfo):
        return _evolve_row(old, new, defaults, path, problems)
    if type(old) is type(new) is TupleTypeInfo and len(old.field_types) == len(new.field_types):
        return _evolve_tuple(old, new, path, problems)
    if isinstance(old, MapTypeInfo) and isinstance(new, MapTypeInfo) and old.key_type == new.key_type:
        inner = _evolve(old.value_type, new.value_type, {}, path + "{}", problems)
        return None if inner is None else _through(StateKind.MAP, inner)
    before, after = getattr(old, "element_type", None), getattr(new, "element_type", None)
    if type(old) is type(new) and before is not None and after is not None:
        inner = _evolve(before, after, {}, path + "[]", problems)
        return None if inner is None else _through(StateKind.LIST, inner)
    if _widens(old, new):
        return _to_float if new in _FLOATING and old not in _FLOATING else None
    where = f"field {path.lstrip('.')}" if path else "the type"
    problems.append(f"{where}: {type_lines(old)[0]} cannot become {type_lines(new)[0]}")
    return None


def _widens(old: TypeInformation, new: TypeInformation) -> bool:
    if not isinstance(old, BasicTypeInfo) or not isinstance(new, BasicTypeInfo):
        return False
    return new.basic_type in _WIDER.get(old.basic_type, ())


def _to_float(value: Any) -> Any:
    return None if value is None else float(value)


def _evolve_tuple(old: TupleTypeInfo, new: TupleTypeInfo, path: str, problems: list[str]) -> Convert | None:
    steps = [
        _evolve(before, after, {}, f"{path}.{place}", problems)
        for place, (before, after) in enumerate(zip(old.field_types, new.field_types, strict=True))
    ]
    if not any(steps):
        return None

    def convert(value: Any) -> Any:
        if value is None:
            return None
        pairs = zip(steps, value, strict=True)
        return tuple(item if step is None else step(item) for step, item in pairs)

    return convert


def _evolve_row(
    old: RowTypeInfo, new: RowTypeInfo, defaults: Mapping[str, Any], path: str, problems: list[str]
) -> Convert:
    places = {name: place for place, name in enumerate(old.field_names)}
    plan: list[tuple[int | None, Any]] = []
    for name, kind in new.parts():
        if name in places:
            before = old.field_types[places[name]]
            plan.append((places[name], _evolve(before, kind, {}, f"{path}.{name}", problems)))
        else:
            plan.append((None, defaults.get(name)))
    names, width = row_names(new), len(old.field_names)

    def convert(row: Any) -> Any:
        if row is None:
            return None
        values = tuple(row)
        if not isinstance(row, Row) or len(values) != width:
            raise SnapshotError(f"a stored value is no Row of {width} fields, as its type says: {row!r:.200}")
        fresh = [_field(values, place, step) for place, step in plan]
        made = Row.many(names, [fresh])[0]
        made.set_row_kind(row.get_row_kind())
        return made

    return convert


def _field(values: tuple[Any, ...], place: int | None, step: Any) -> Any:
    """An old field, converted by ``step``; or the default ``step`` of a new one."""
    if place is None:
        return copy.deepcopy(step)
    return values[place] if step is None else step(values[place])


def _timed(item: Convert | None, was: bool, is_now: bool, stamp: int) -> Convert | None:
    """The same for what is stored of one value: the value, or its pair with a time."""
    change = item or (lambda value: value)
    if was and is_now:
        return None if item is None else lambda pair: (change(pair[0]), pair[1])
    if was:
        return lambda pair: change(pair[0])
    if is_now:
        return lambda value: (change(value), stamp)
    return item


def _through(kind: StateKind, item: Convert | None) -> Convert | None:
    """The same for what a table holds for one key."""
    if item is None:
        return None
    if kind is StateKind.LIST:
        return lambda values: None if values is None else [item(value) for value in values]
    if kind is StateKind.MAP:
        return lambda found: None if found is None else {key: item(value) for key, value in found.items()}
    return item


@dataclass(frozen=True, slots=True)
class Rehashed:
    """The key groups of a subtask whose state was stored with older hashes."""

    first: int
    last: int
    count: int
    """How many key groups there are in all."""

    def check(self, name: str, keys: list[Any]) -> None:
        """Refuse rows whose key is another subtask's today."""
        self.refuse(name, [key_groups(hash_values(keys), self.count)])

    def refuse(self, name: str, found: list[npt.NDArray[np.int64]]) -> None:
        """Refuse key groups that are another subtask's."""
        others = sum(int(((groups < self.first) | (groups > self.last)).sum()) for groups in found)
        if others:
            raise SnapshotError(
                f"{others} rows of state {name!r} have keys that an older version of Penstock kept on "
                "other subtasks than this one does. Start from this snapshot with parallelism 1 once, take a "
                "savepoint, and go on from that with the parallelism you want"
            )


def canonical_entries(block: TableBlock) -> list[Any]:
    """The entries with keys as they are today; the same list if nothing changed."""
    shape, entries = block.shape, block.entries
    stored = [shape.key_of(entry) for entry in entries]
    try:
        keys = canonical_keys(stored)
    except KeyError_ as error:
        raise SnapshotError(
            f"state {block.name!r} in the snapshot cannot be used: {error}", code=Code.STATE_CHANGED
        ) from error
    if keys is stored or all(new is old for new, old in zip(keys, stored, strict=True)):
        return entries
    if shape is EntryShape.KEY:
        return keys
    if shape is EntryShape.NAMESPACED:
        return [(key, entry[1]) for key, entry in zip(keys, entries, strict=True)]
    return [(entry[0], key, entry[2]) for key, entry in zip(keys, entries, strict=True)]


def refuse_doubles(block: TableBlock, entries: list[Any], kept: Container[Any]) -> None:
    """Refuse values of keys that are one today and were several: which one counts, only the user knows.

    ``kept`` has the entries that came before.  A timer that is there twice fires once, as it should.
    """
    if block.shape is EntryShape.TIMER:
        return
    distinct = set(entries)
    doubles = len(entries) - len(distinct) + sum(entry in kept for entry in distinct)
    if doubles:
        raise SnapshotError(
            f"state {block.name!r} has {doubles} values too many: an older Penstock held equal keys "
            "(NaN, times of pandas and of Python, dataclasses with fields that are not compared) apart. Read "
            "the state with the state processor, write it with one row per key, and start from that"
        )
