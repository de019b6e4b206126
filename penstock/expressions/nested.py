"""Lists, structs, maps and JSON.  Lists count from one; what is not there is null."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from penstock.expressions.functions import (
    Arguments,
    Overload,
    Unfit,
    Value,
    all_null,
    every,
    function,
    on_arrays,
)
from penstock.expressions.lists import elements
from penstock.expressions.strings import per_text
from penstock.expressions.types import is_text

_TEXT = pa.string()


def _is_list(kind: pa.DataType) -> bool:
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


@function("element_at", 2)
def _element_at(arguments: Arguments) -> Overload:
    """``list[1]``, the first; ``map['key']``; ``struct['field']``."""
    kind, index = arguments.types
    if _is_list(kind):
        return Overload((kind, pa.int64()), kind.value_type, on_arrays(_at))
    if kinds.is_map(kind):
        return Overload((kind, kind.key_type), kind.item_type, on_arrays(_item))
    if kinds.is_struct(kind) and is_text(index):
        return _field(arguments)
    raise Unfit(f"it takes a list and a number, or a map and a key, not {kind} and {index}")


def _at(lists: pa.Array, index: pa.Array) -> pa.Array:
    wanted = np.asarray(pc.fill_null(index, 0)) - 1
    return elements(lists, wanted, np.asarray(pc.is_valid(index)))


def _item(maps: pa.Array, keys: pa.Array) -> pa.Array:
    """Row by row: how many keys there are is theirs to say."""
    wanted = keys.to_pylist()
    found = [
        None if entries is None else dict(entries).get(key)
        for entries, key in zip(maps.to_pylist(), wanted, strict=True)
    ]
    return pa.array(found, maps.type.item_type)


@function("field", 2)
def _field(arguments: Arguments) -> Overload:
    """``struct.field``."""
    kind = arguments.types[0]
    name = arguments.constant(1, "the field's name")
    if not kinds.is_struct(kind):
        raise Unfit(f"only a struct has fields, not {kind}")
    index = kind.get_field_index(name)
    if index < 0:
        there = ", ".join(kind.field(at).name for at in range(kind.num_fields))
        raise Unfit(f"there is no field {name!r}; there are {there}")
    return Overload(
        (kind, arguments.types[1]), kind.field(index).type, lambda value, _: pc.struct_field(value, [index])
    )


@function("cardinality", 1)
def _cardinality(arguments: Arguments) -> Overload:
    """How many elements or entries."""
    every(arguments, lambda kind: _is_list(kind) or bool(kinds.is_map(kind)), "a list or a map")
    if kinds.is_map(arguments.types[0]):

        def count(value: Value) -> Value:
            sizes = np.diff(np.asarray(value.offsets))
            return pa.array(sizes, pa.int32(), mask=~np.asarray(pc.is_valid(value)))

        return Overload(arguments.types, pa.int32(), on_arrays(count))
    return Overload(arguments.types, pa.int32(), lambda value: pc.list_value_length(value).cast(pa.int32()))


@function("array_contains", 2)
def _array_contains(arguments: Arguments) -> Overload:
    """Whether a list has an element; null if the list or the element is null."""
    kind = arguments.types[0]
    if not _is_list(kind):
        raise Unfit(f"it takes a list, not {kind}")

    def kernel(lists: pa.Array, wanted: pa.Array) -> pa.Array:
        pairs = zip(lists.to_pylist(), wanted.to_pylist(), strict=True)
        return pa.array(
            [None if have is None or one is None else one in have for have, one in pairs], pa.bool_()
        )

    return Overload((kind, kind.value_type), pa.bool_(), on_arrays(kernel))


@function("array", 1, -1)
def _array(arguments: Arguments) -> Overload:
    """A list of its arguments, one in each row."""
    from functools import reduce

    from penstock.expressions.types import common_type

    common = reduce(common_type, arguments.types)
    count = len(arguments.types)

    def kernel(*values: pa.Array) -> pa.Array:
        rows = len(values[0])
        places = np.arange(rows * count).reshape(count, rows).T.ravel()
        joined = pa.concat_arrays(values).take(pa.array(places))
        return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * count, pa.int32()), joined)

    return Overload((common,) * count, pa.list_(common), on_arrays(kernel))


# --- JSON ----------------------------------------------------------------------------------------

_STEP = re.compile(r"\.([A-Za-z_$][\w$]*)|\[(\d+)\]|\[(?:'([^']*)'|\"([^\"]*)\")\]")


def _path(text: str) -> list[str | int]:
    """``$.a.b[0]['c d']`` as its steps."""
    if not text.startswith("$"):
        raise Unfit(f"a path begins with $, and {text!r} does not")
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            raise Unfit(
                f"{text!r} is no path from its {at + 1}. character on; .name, [0] and ['name'] are its steps"
            )
        name = next((it for it in (found[1], found[3], found[4]) if it is not None), None)
        steps.append(int(found[2]) if name is None else name)
        at = found.end()
    return steps


def _reach(text: str, steps: list[str | int]) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for step in steps:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


def _of_json(show: Callable[[Any], str | None]) -> Callable[[Arguments], Overload]:
    def resolve(arguments: Arguments) -> Overload:
        every(arguments, is_text, "texts")
        path = arguments.constant(1, "the path")
        if path is None:
            return all_null((_TEXT, _TEXT), _TEXT)
        steps = _path(path)
        return Overload((_TEXT, _TEXT), _TEXT, per_text(lambda text: show(_reach(text, steps)), _TEXT))

    return resolve


def _scalar(value: Any) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return value if isinstance(value, str) else json.dumps(value)


def _part(value: Any) -> str | None:
    return (
        json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        if isinstance(value, dict | list)
        else None
    )


function("json_value", 2)(_of_json(_scalar))
function("json_query", 2)(_of_json(_part))
