"""Columns of a declared type: a map is stored as a list of pairs, and tables show it as a map."""

from __future__ import annotations

import pyarrow as pa

from penstock.core.type_tree import MapTypeInfo, TupleTypeInfo, TypeInformation


def shown_type(kind: pa.DataType, layout: TypeInformation) -> pa.DataType:
    """The type of :func:`shown` for a column that is stored as ``kind``."""
    if isinstance(layout, MapTypeInfo):
        key, item = kind.value_type
        return pa.map_(shown_type(key.type, layout.key_type), shown_type(item.type, layout.value_type))
    if isinstance(layout, TupleTypeInfo):
        parts = zip(kind, layout.field_types, strict=True)
        return pa.struct([(field.name, shown_type(field.type, part)) for field, part in parts])
    element = _element(kind, layout)
    return kind if element is None else pa.list_(shown_type(kind.value_type, element))


def shown(array: pa.Array, layout: TypeInformation) -> pa.Array:
    """The column with its pairs turned into maps, at any depth."""
    if shown_type(array.type, layout) == array.type:
        return array
    if isinstance(layout, MapTypeInfo):
        pairs = array.values
        keys, items = shown(pairs.field(0), layout.key_type), shown(pairs.field(1), layout.value_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, mask=array.is_null())
    if isinstance(layout, TupleTypeInfo):
        parts = [shown(array.field(n), part) for n, part in enumerate(layout.field_types)]
        names = [field.name for field in array.type]
        return pa.StructArray.from_arrays(parts, names=names, mask=array.is_null())
    element = _element(array.type, layout)
    assert element is not None
    return pa.ListArray.from_arrays(_offsets(array), shown(array.values, element), mask=array.is_null())


def stored(array: pa.Array) -> pa.Array:
    """The way back: the column with its maps turned into pairs, at any depth."""
    kind = array.type
    if pa.types.is_map(kind):
        pairs = pa.StructArray.from_arrays([stored(array.keys), stored(array.items)], names=["f0", "f1"])
        return pa.ListArray.from_arrays(_offsets(array), pairs, mask=array.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), stored(array.values), mask=array.is_null())
    if pa.types.is_struct(kind):
        parts = [stored(array.field(n)) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(parts, names=[f.name for f in kind], mask=array.is_null())
    return array


def _offsets(array: pa.Array) -> pa.Array:
    """Offsets in an array of their own: one that is cut out of another cannot be combined with a mask."""
    return pa.array(array.offsets.to_numpy(), pa.int32())


def _element(kind: pa.DataType, layout: TypeInformation) -> TypeInformation | None:
    if not pa.types.is_list(kind):
        return None
    found: TypeInformation | None = getattr(layout, "element_type", None)
    return found
