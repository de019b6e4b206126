"""Where classes are that snapshots name by the modules in which they were once.

A snapshot names classes by module and name, and outlives the module.  Whoever moves a module that defines plain
data adds a line here; ``tests/unit/core/test_former_modules.py`` names classes that stored snapshots may hold.
"""

from __future__ import annotations

FORMER = {
    "penstock.connectors.builtin.driver_rows": "penstock.connectors.builtin.driver_rows",
    "penstock.connectors.builtin.collect": "penstock.connectors.builtin.collect",
    "penstock.connectors.builtin.collection": "penstock.connectors.builtin.collection",
    "penstock.connectors.builtin.datagen": "penstock.connectors.builtin.datagen",
    "penstock.connectors.builtin.generic": "penstock.connectors.builtin.generic",
    "penstock.connectors.builtin.sequence": "penstock.connectors.builtin.sequence",
    "penstock.connectors.builtin.socket": "penstock.connectors.builtin.socket",
    "penstock.connectors.combinators.time_range": "penstock.connectors.combinators.time_range",
    "penstock.connectors.combinators.backfill": "penstock.connectors.combinators.backfill",
    "penstock.connectors.combinators.hybrid": "penstock.connectors.combinators.hybrid",
    "penstock.connectors.combinators.materialized": "penstock.connectors.combinators.materialized",
    "penstock.connectors.combinators.table_versions": "penstock.connectors.combinators.table_versions",
    "penstock.connectors.combinators.source_wrapper": "penstock.connectors.combinators.source_wrapper",
    "penstock.connectors.lake.delta.source": "penstock.connectors.lake.delta.source",
    "penstock.connectors.lake.delta.table": "penstock.connectors.lake.delta.table",
    "penstock.connectors.lake.delta.writer": "penstock.connectors.lake.delta.writer",
    "penstock.connectors.lake.iceberg.table": "penstock.connectors.lake.iceberg.table",
    "penstock.connectors.lake.iceberg.writer": "penstock.connectors.lake.iceberg.writer",
    "penstock.connectors.lake.table_files": "penstock.connectors.lake.table_files",
    "penstock.formats.bad_records": "penstock.formats.bad_records",
    "penstock.event_time.learned_lateness": "penstock.event_time.learned_lateness",
    "penstock.event_time.watermark_strategy": "penstock.event_time.watermark_strategy",
    "penstock.event_time.watermark_tracker": "penstock.event_time.watermark_tracker",
    "penstock.testing.scripted_source": "penstock.testing.scripted_source",
    "penstock.replay.replayed": "penstock.replay.replayed",
}
"""Module as snapshots may name it, and as it is now."""
