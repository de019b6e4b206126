"""What a snapshot says about a state: its kind, types, version, and whether entries are timed.

A :class:`StateSchema` stands in the header of every block of a state that was asked for by a descriptor, so
a snapshot can be understood without the program that wrote it.  How a stored schema is brought to the one a
program declares now is in :mod:`penstock.state.evolution`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.type_tree import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.core.typeinfo import as_type_info
from penstock.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

ANY = PickledBytesTypeInfo()
"""The type of state that declares none: any Python object."""


class StateKind(Enum):
    """The five kinds of keyed state."""

    VALUE = "value"
    LIST = "list"
    MAP = "map"
    REDUCING = "reducing"
    AGGREGATING = "aggregating"

    @staticmethod
    def of(descriptor: StateDescriptor) -> StateKind:
        """The kind that a descriptor asks for."""
        for made, kind in _KINDS:
            if isinstance(descriptor, made):
                return kind
        raise ConfigError(f"unknown kind of state descriptor: {type(descriptor).__name__}")


_KINDS: list[tuple[type[StateDescriptor], StateKind]] = [
    (ValueStateDescriptor, StateKind.VALUE),
    (ListStateDescriptor, StateKind.LIST),
    (MapStateDescriptor, StateKind.MAP),
    (ReducingStateDescriptor, StateKind.REDUCING),
    (AggregatingStateDescriptor, StateKind.AGGREGATING),
]


class StampedTypeInfo(TupleTypeInfo):
    """A pair of a value and the time it was last touched: what state with a time to live holds."""

    def __init__(self, value_type: TypeInformation) -> None:
        super().__init__([value_type, BasicTypeInfo(BasicType.LONG)])


@dataclass(frozen=True)
class StateSchema:
    """One state, as declared by a descriptor or as found in a snapshot."""

    kind: StateKind
    type: TypeInformation = ANY
    """Of the value, of a list's elements, of a map's values, or of the accumulator."""
    key_type: TypeInformation = ANY
    """Of a map's keys."""
    version: int = 1
    ttl: bool = False

    @classmethod
    def of(cls, descriptor: StateDescriptor) -> StateSchema:
        """What a descriptor declares."""
        kind = StateKind.of(descriptor)
        key_type, value_type = descriptor.type_info if kind is StateKind.MAP else (None, descriptor.type_info)
        declared = _known(as_type_info(value_type))
        names = declared.field_names if isinstance(declared, RowTypeInfo) else []
        unknown = [name for name in descriptor.defaults if name not in names]
        if unknown:
            raise ConfigError(
                f"state {descriptor.get_name()!r} gives a default for {unknown[0]!r}, which its type does "
                f"not have; fields that can have one: {', '.join(names) or 'none, the type is no ROW'}"
            )
        return cls(
            kind,
            declared,
            _known(as_type_info(key_type)),
            descriptor.version,
            descriptor.expires,
        )

    @property
    def layout(self) -> TypeInformation:
        """The type of what the table holds for one key."""
        item = StampedTypeInfo(self.type) if self.ttl else self.type
        if self.kind is StateKind.LIST:
            return ListTypeInfo(item)
        if self.kind is StateKind.MAP:
            return MapTypeInfo(self.key_type, item)
        return item

    def to_json(self) -> dict[str, Any]:
        """The ``state`` object of a block's header."""
        found: dict[str, Any] = {"kind": self.kind.value, "type": type_to_json(self.type)}
        if self.kind is StateKind.MAP:
            found["key_type"] = type_to_json(self.key_type)
        return {**found, "version": self.version, "ttl": self.ttl}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> StateSchema:
        """The inverse of :meth:`to_json`; raises anything on nonsense."""
        return cls(
            StateKind(found["kind"]),
            type_from_json(found["type"]),
            type_from_json(found.get("key_type", "PICKLED")),
            int(found["version"]),
            bool(found["ttl"]),
        )


@dataclass(frozen=True)
class StoredForm:
    """How the snapshot writer stores a table: what it says of it, and what it leaves out."""

    schema: StateSchema
    trim: Callable[[Any], Any] | None = None
    """Gives what is left of a value, ``None`` if nothing; called in the writer's thread."""


_ELEMENTS: dict[str, type[Any]] = {
    "LIST": ListTypeInfo,
    "PRIMITIVE_ARRAY": PrimitiveArrayTypeInfo,
    "BASIC_ARRAY": BasicArrayTypeInfo,
    "OBJECT_ARRAY": ObjectArrayTypeInfo,
}
_PLAIN: dict[str, TypeInformation] = {
    **{basic.name: BasicTypeInfo(basic) for basic in BasicType if basic is not BasicType.INSTANT},
    "INSTANT": InstantTypeInfo(),
    "PICKLED": ANY,
    "SQL_DATE": DateTypeInfo(),
    "SQL_TIME": TimeTypeInfo(),
    "SQL_TIMESTAMP": TimestampTypeInfo(),
    **{kind.name: LocalTimeTypeInfo(kind) for kind in LocalTimeTypeInfo.TimeType},
}
_PLAIN_NAMES = {kind: name for name, kind in _PLAIN.items()}


def _known(declared: TypeInformation | None) -> TypeInformation:
    """The type without wrappers; what has no written form counts as any object."""
    return ANY if declared is None else type_from_json(type_to_json(declared))


def type_to_json(kind: TypeInformation) -> Any:
    """A type as JSON: a name, or an object for what is made of other types."""
    if isinstance(kind, ExternalTypeInfo):
        return type_to_json(kind.type_info)
    if isinstance(kind, RowTypeInfo):
        return {
            "type": "ROW",
            "fields": [{"name": name, "type": type_to_json(field)} for name, field in kind.parts()],
        }
    if isinstance(kind, TupleTypeInfo):
        return {"type": "TUPLE", "fields": [type_to_json(field) for field in kind.field_types]}
    if isinstance(kind, MapTypeInfo):
        return {"type": "MAP", "key": type_to_json(kind.key_type), "value": type_to_json(kind.value_type)}
    for name, made in _ELEMENTS.items():
        if type(kind) is made:
            return {"type": name, "element": type_to_json(kind.parts()[0])}
    return _PLAIN_NAMES.get(kind, "PICKLED")


def type_from_json(found: Any) -> TypeInformation:
    """The inverse of :func:`type_to_json`; raises anything on nonsense."""
    if isinstance(found, str):
        return _PLAIN[found]
    name = found["type"]
    if name == "ROW":
        fields = found["fields"]
        return RowTypeInfo(
            [type_from_json(field["type"]) for field in fields], [str(field["name"]) for field in fields]
        )
    if name == "TUPLE":
        return TupleTypeInfo([type_from_json(field) for field in found["fields"]])
    if name == "MAP":
        return MapTypeInfo(type_from_json(found["key"]), type_from_json(found["value"]))
    made: TypeInformation = _ELEMENTS[name](type_from_json(found["element"]))
    return made


def type_lines(kind: TypeInformation, indent: str = "") -> list[str]:
    """A type for people, one line per field."""
    found = type_to_json(kind)
    if isinstance(found, str):
        return [found]
    if isinstance(kind, TupleTypeInfo):
        names = kind.field_names if isinstance(kind, RowTypeInfo) else range(len(kind.field_types))
        lines = [found["type"]]
        for name, field in zip(names, kind.field_types, strict=True):
            first, *rest = type_lines(field, indent + "  ")
            lines += [f"{indent}  {name}: {first}", *rest]
        return lines
    if isinstance(kind, MapTypeInfo):
        first, *rest = type_lines(kind.value_type, indent)
        return [f"MAP of {' '.join(type_lines(kind.key_type, indent))} to {first}", *rest]
    first, *rest = type_lines(kind.parts()[0], indent)
    return [f"{found['type']} of {first}", *rest]
