"""Tables and SQL under the names of ``pyflink.table``: thin faces of :mod:`penstock.sql` and of DataFrames.

What programs use most is here: environments, ``execute_sql``, ``sql_query``, streams in and out, ``Schema``,
``TableDescriptor``, ``DataTypes``, ``udf``, statement sets.  Methods of ``Table`` that are not here say which
method of a DataFrame does the same.
"""

from __future__ import annotations

from penstock.common.types import Row, RowKind
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.schema import Schema
from penstock.table.statement_set import StatementSet
from penstock.table.table import GroupedTable, Table
from penstock.table.table_config import TableConfig
from penstock.table.table_descriptor import FormatDescriptor, TableDescriptor
from penstock.table.table_environment import StreamTableEnvironment, TableEnvironment
from penstock.table.table_result import ExplainDetail, ResultKind, TableResult
from penstock.table.types import DataType, DataTypes
from penstock.table.udf import ScalarFunction

__all__ = [
    "DataType",
    "DataTypes",
    "EnvironmentSettings",
    "ExplainDetail",
    "FormatDescriptor",
    "GroupedTable",
    "ResultKind",
    "Row",
    "RowKind",
    "ScalarFunction",
    "Schema",
    "StatementSet",
    "StreamTableEnvironment",
    "Table",
    "TableConfig",
    "TableDescriptor",
    "TableEnvironment",
    "TableResult",
]
