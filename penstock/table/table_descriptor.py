"""PyFlink's ``table.table_descriptor``: a table as a program describes it, instead of ``CREATE TABLE``."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.core.errors import ConfigError
from penstock.sql.dialect import one
from penstock.sql.errors import Text
from penstock.sql.tables import TableDefinition, definition
from penstock.table.schema import Schema

__all__ = ["FormatDescriptor", "TableDescriptor"]


class FormatDescriptor:
    """A format and its options."""

    def __init__(self, name: str, options: dict[str, str]) -> None:
        self.name = name
        self.options = options

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Begins a format, such as ``json``."""
        return FormatDescriptor.Builder(format)

    class Builder:
        """Collects the options of a format."""

        def __init__(self, name: str) -> None:
            self._name = name
            self._options: dict[str, str] = {}

        def option(self, key: Any, value: Any) -> FormatDescriptor.Builder:
            """An option of the format, without its name in front."""
            self._options[str(key)] = str(value)
            return self

        def build(self) -> FormatDescriptor:
            """The format."""
            return FormatDescriptor(self._name, self._options)


class TableDescriptor:
    """A connector, its options and a schema.

    >>> TableDescriptor.for_connector("print").schema(Schema.new_builder().column("a", "INT").build()).build()
    TableDescriptor('print')
    """

    def __init__(self, schema: Schema, options: dict[str, str], partitions: tuple[str, ...]) -> None:
        self._schema = schema
        self._options = options
        self._partitions = partitions

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Begins a table of a connector."""
        return TableDescriptor.Builder(connector)

    def __repr__(self) -> str:
        return f"TableDescriptor({self._options['connector']!r})"

    def define(self, name: str) -> TableDefinition:
        """The table under a name."""
        return define(name, self._schema, self._options, self._partitions)

    class Builder:
        """Collects the parts of a :class:`TableDescriptor`."""

        def __init__(self, connector: str) -> None:
            self._options = {"connector": connector}
            self._schema: Schema | None = None
            self._partitions: tuple[str, ...] = ()

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """The columns."""
            self._schema = schema
            return self

        def option(self, key: Any, value: Any) -> TableDescriptor.Builder:
            """An option of the connector."""
            self._options[str(key)] = str(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: Any = None
        ) -> TableDescriptor.Builder:
            """The format of records, ``'json'`` or a :class:`FormatDescriptor`."""
            name = format if isinstance(format, str) else format.name
            self._options["format" if format_option is None else str(format_option)] = name
            more = {} if isinstance(format, str) else format.options
            self._options |= {f"{name}.{key}": value for key, value in more.items()}
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Columns that become directories."""
            self._partitions = partition_keys
            return self

        def build(self) -> TableDescriptor:
            """The description."""
            if self._schema is None:
                raise ConfigError("a table needs columns: .schema(Schema.new_builder().column(...).build())")
            return TableDescriptor(self._schema, dict(self._options), self._partitions)


def define(
    name: str, schema: Schema, options: dict[str, str], partitions: tuple[str, ...] = ()
) -> TableDefinition:
    """The table of a schema: computed columns and watermark are read as ``CREATE TABLE`` reads them."""
    lines = []
    for kind, column, value in schema._parts:
        quoted = f"`{column.replace('`', '``')}`"
        if kind == "computed":
            lines.append(f"{quoted} AS {value}")
        elif kind == "watermark":
            lines.append(f"WATERMARK FOR {quoted} AS {value}")
        elif kind == "key":
            lines.append(f"PRIMARY KEY ({', '.join(f'`{it}`' for it in value)}) NOT ENFORCED")
        else:
            lines.append(f"{quoted} INT")
    text = "CREATE TABLE t (\n" + ",\n".join(lines) + "\n)"
    node = one(text)
    assert isinstance(node, exp.Create)
    found = definition(node, Text(text))
    kinds = {column: value for kind, column, value in schema._parts if kind == "column"}
    return _typed(found, name, kinds, options, partitions)


def _typed(
    found: TableDefinition,
    name: str,
    kinds: dict[str, Any],
    options: dict[str, str],
    partitions: tuple[str, ...],
) -> TableDefinition:
    from dataclasses import replace

    import pyarrow as pa

    fields = [
        pa.field(it.name, kinds[it.name][0], kinds[it.name][1] and it.name not in found.key)
        for it in found.schema
    ]
    return replace(found, name=name, schema=pa.schema(fields), options=options, partitioned=partitions)
