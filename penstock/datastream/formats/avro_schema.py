"""An Avro schema, parsed; travels by its text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.core.errors import ConfigError
from penstock.core.optional import require
from penstock.core.typeinfo import RowTypeInfo
from penstock.datastream.formats.avro_values import row_type_of


class AvroSchema:
    """A parsed schema; ``text`` is its JSON."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.parsed: Any = _parsed(text)

    @staticmethod
    def parse_string(json_schema: str) -> AvroSchema:
        """A schema out of its JSON."""
        return AvroSchema(json_schema)

    @staticmethod
    def parse_file(file_path: str) -> AvroSchema:
        """A schema out of a file of JSON."""
        return AvroSchema(Path(file_path).read_text())

    def row_type(self) -> RowTypeInfo:
        """The type of rows for records of this schema."""
        return row_type_of(self.parsed)

    def __reduce__(self) -> tuple[Any, ...]:
        return (AvroSchema, (self.text,))


def _parsed(text: str) -> Any:
    fastavro = require("fastavro", "kafka")
    try:
        schema = json.loads(text)
    except ValueError as e:
        raise ConfigError(f"the Avro schema is not JSON: {e}") from None
    try:
        return fastavro.parse_schema(schema)
    except (fastavro.schema.SchemaParseException, ValueError, LookupError, TypeError) as e:
        raise ConfigError(f"the Avro schema cannot be used: {e}") from None
