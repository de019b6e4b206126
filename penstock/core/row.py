"""``Row``: a record with positions and, optionally, names.  PyFlink's class, made cheap to build.

And fields by their names, whatever a record is (:func:`field_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from operator import attrgetter
from typing import Any

from penstock.core.errors import TypeMismatchError


class RowKind(Enum):
    """What a row does to a changing table.

    >>> str(Row.of_kind(RowKind.DELETE, 1).get_row_kind())
    '-D'
    """

    INSERT = 0
    UPDATE_BEFORE = 1
    UPDATE_AFTER = 2
    DELETE = 3

    def __str__(self) -> str:
        return _KIND_TEXT[self]


_INSERT = RowKind.INSERT
_VALUES = attrgetter("_values")
_FIELDS = attrgetter("_fields")
_KIND_TEXT = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}


class Row:
    """Values by position and, if named, by name: ``row[0]``, ``row["user"]``, ``row.user``.

    >>> row = Row(user="ann", clicks=3)
    >>> row.user, row["clicks"], row[1], list(row), row.as_dict()
    ('ann', 3, 3, ['ann', 3], {'user': 'ann', 'clicks': 3})

    ``Row(1, "a")`` has no names but f0, f1, ..., ``Row(id=1, name="a")`` has.  A row without values but with
    positional strings, as in ``Person = Row("id", "name")``, acts as a factory when called.
    """

    __slots__ = ("_fields", "_kind", "_values")

    _fields: tuple[str, ...] | None
    _values: Sequence[Any]
    """A tuple until somebody changes it."""
    _kind: RowKind

    def __init__(self, *args: object, **kwargs: object) -> None:
        if kwargs:
            if args:
                raise ValueError("a Row takes positional values or named values, not both")
            self._fields = tuple(kwargs)
            self._values = list(kwargs.values())
        else:
            self._fields = None
            self._values = args
        self._kind = _INSERT

    @classmethod
    def many(cls, names: Sequence[str] | None, tuples: Iterable[Sequence[Any]]) -> list[Row]:
        """Rows of one shape, built without the constructor's checks."""
        fields = None if names is None else tuple(names)
        new = object.__new__
        rows: list[Row] = []
        append = rows.append
        for values in tuples:
            row = new(cls)
            row._values = values
            row._fields = fields
            row._kind = _INSERT
            append(row)
        return rows

    @classmethod
    def renamed(cls, names: tuple[str, ...], rows: Iterable[Row]) -> list[Row]:
        """The same rows under ``names``, with the fields as :meth:`arranged` has them.

        Those that have the names already are not copied.
        """
        new = object.__new__
        found: list[Row] = []
        append = found.append
        for row in rows:
            if row._fields is names or row._fields == names:
                append(row)
            else:
                copy = new(cls)
                copy._values = row.get_fields_by_names(names) if row._has_all(names) else row._values
                copy._fields = names
                copy._kind = row._kind
                append(copy)
        return found

    @classmethod
    def numbered(cls, names: tuple[str, ...], rows: Sequence[Row]) -> Sequence[Row]:
        """The same rows under the names f0, f1, ..., which one without names answers to anyway.

        So these are not copied but get the names, cheaply: this is on the way of every unnamed row of a
        typed stream.
        """
        for row in rows:
            if row._fields is None:
                row._fields = names
            elif row._fields is not names and row._fields != names:
                return cls.renamed(names, rows)
        return rows

    @classmethod
    def arranged(cls, names: tuple[str, ...], rows: Sequence[Any]) -> Sequence[Any]:
        """``rows`` with the fields called ``names``, in that order; what is no row with names stays.

        A row with all of the names and in another order, or with more, gives its fields by name, as in
        PyFlink.  One that lacks some is meant by position.  Returns ``rows`` itself if nothing changed.
        """
        found: list[Any] | None = None
        for at, row in enumerate(rows):
            if not isinstance(row, Row):
                continue
            if row._fields is names or row._fields == names or not row._has_all(names):
                continue
            if found is None:
                found = list(rows)
            found[at] = cls.many(names, [row.get_fields_by_names(names)])[0]
            found[at]._kind = row._kind
        return rows if found is None else found

    @staticmethod
    def have_names(rows: Iterable[Row], names: tuple[str, ...]) -> bool:
        """Whether each has these names in this order, or none at all."""
        return set(map(_FIELDS, rows)) <= {None, names}

    def _has_all(self, names: tuple[str, ...]) -> bool:
        return self._fields is not None and set(names).issubset(self._fields)

    @staticmethod
    def widths(rows: Iterable[Row]) -> set[int]:
        """The different numbers of fields there are."""
        return set(map(len, map(_VALUES, rows)))

    @staticmethod
    def of_kind(row_kind: RowKind, *args: object, **kwargs: object) -> Row:
        """A row with a change kind."""
        row = Row(*args, **kwargs)
        row._kind = row_kind
        return row

    def get_row_kind(self) -> RowKind:
        """The change kind, INSERT unless set."""
        return self._kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the change kind."""
        self._kind = row_kind

    def set_field_names(self, field_names: Sequence[str]) -> None:
        """Name the fields, in order."""
        self._fields = tuple(field_names)

    def field_names(self) -> tuple[str, ...] | None:
        """The names, or ``None``."""
        return self._fields

    def get_fields_by_names(self, names: Sequence[str]) -> list[Any]:
        """Values of the named fields, in the order asked for."""
        return [self[name] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Name to value; nested rows too if ``recursive``."""
        if self._fields is None:
            raise TypeError("cannot convert a Row without field names into a dict")
        pairs = zip(self._fields, self._values, strict=False)
        if not recursive:
            return dict(pairs)
        return {name: _as_dict(value) for name, value in pairs}

    def __call__(self, *args: Any) -> Row:
        if len(args) > len(self._values):
            raise ValueError(f"cannot create a Row of {len(args)} values with fields {self._values!r}")
        row = Row(*args)
        row._fields = tuple(self._values)
        return row

    def _position(self, name: str) -> int:
        if self._fields is None and name[:1] == "f" and name[1:].isdecimal():
            position = int(name[1:])
            if position < len(self._values):
                return position
        if self._fields is None or name not in self._fields:
            known = ", ".join(self._fields) if self._fields else "none, the row is unnamed"
            raise KeyError(f"the row has no field {name!r}; its fields: {known}")
        return self._fields.index(name)

    def __getitem__(self, item: int | str | slice) -> Any:
        try:
            return self._values[item]  # type: ignore[index]
        except TypeError:
            if isinstance(item, str):
                return self._values[self._position(item)]
            raise

    def __setitem__(self, item: int | str, value: Any) -> None:
        if not isinstance(self._values, list):
            self._values = list(self._values)
        self._values[item if isinstance(item, int) else self._position(item)] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Row.__slots__:
            raise AttributeError(name)
        try:
            return self._values[self._position(name)]
        except KeyError as e:
            raise AttributeError(e.args[0]) from None

    def __contains__(self, item: Any) -> bool:
        return item in self._values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return False
        return (
            self._fields == other._fields
            and self._kind is other._kind
            and list(self._values) == list(other._values)
        )

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (self._fields, tuple(self._values), self._kind.value))

    def __repr__(self) -> str:
        if self._fields is not None:
            pairs = zip(self._fields, self._values, strict=False)
            return "Row(" + ", ".join(f"{name}={value!r}" for name, value in pairs) + ")"
        return f"<Row({', '.join(repr(value) for value in self._values)})>"


def _restore(fields: tuple[str, ...] | None, values: tuple[Any, ...], kind: int) -> Row:
    row = Row.__new__(Row)
    row._fields = fields
    row._values = values
    row._kind = RowKind(kind)
    return row


def _as_dict(value: Any) -> Any:
    if isinstance(value, Row):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_as_dict(item) for item in value]
    if isinstance(value, dict):
        return {key: _as_dict(item) for key, item in value.items()}
    return value


_SHOWN = 100


def field_of(record: Any, name: str) -> Any:
    """The field of a ``Row``, a dict, or anything that has attributes."""
    try:
        return record[name] if isinstance(record, (Row, dict)) else getattr(record, name)
    except (KeyError, AttributeError):
        if hasattr(type(record), name):  # what it computes has failed, which is another matter
            raise
        raise no_field(record, name) from None


def no_field(record: Any, field: int | str) -> TypeMismatchError:
    """The error if a record has no such field: what it has, and the way out."""
    shown = repr(record)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
    return TypeMismatchError(
        f"field {field!r} was asked for, but the record is a {type(record).__name__}{_what_it_has(record)}: "
        f"{shown}. Use a function of the record (lambda r: r[0]), or give its fields names: Rows or dicts, "
        "or the type Types.ROW_NAMED(names, types) for the step that makes it"
    )


def _what_it_has(record: Any) -> str:
    names = record.field_names() if isinstance(record, Row) else getattr(record, "_fields", None)
    if isinstance(record, dict):
        names = [str(key) for key in record]
    if names:
        return f" with the fields {', '.join(map(str, names))}"
    return f" of {len(record)} fields without names" if isinstance(record, (tuple, list, Row)) else ""
