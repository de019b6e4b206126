"""PyFlink's ``datastream.formats.orc``. Row types are ``Types.ROW_NAMED(...)`` or Arrow schemas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.common.configuration import Configuration
from penstock.common.serialization import BulkWriterFactory, RowDataBulkWriterFactory
from penstock.connectors.files.column_parts import OrcParts
from penstock.connectors.files.column_types import schema_of
from penstock.core.typeinfo import RowTypeInfo

__all__ = ["OrcBulkWriters"]

# PyFlink has these here, too, from its other modules.
__all__ += ["BulkWriterFactory", "Configuration", "RowDataBulkWriterFactory"]


class OrcBulkWriters:
    """Writes ORC files: ``FileSink.for_bulk_format(path, OrcBulkWriters.for_row_type(row_type))``."""

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo | pa.Schema,
        writer_properties: dict[str, str] | None = None,
        hadoop_config: Any | None = None,
    ) -> OrcParts:
        """For rows, tuples, dictionaries and columns of this type; of properties, ``orc.compress`` counts."""
        schema = schema_of(row_type) if isinstance(row_type, RowTypeInfo) else row_type
        return OrcParts(schema, (writer_properties or {}).get("orc.compress", "zlib").lower())
