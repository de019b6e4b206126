"""Where classes are that snapshots name by the modules in which they were once.

A snapshot names classes by module and name, and outlives the module.  Whoever moves a module that defines
plain data adds a line here; ``tests/unit/core/test_former_modules.py`` names classes that snapshots may hold.
"""

from __future__ import annotations

FORMER = {
    "penstock.connectors.at_hand": "penstock.connectors.builtin.collection",
    "penstock.connectors.collect": "penstock.connectors.builtin.driver_output",
    "penstock.connectors.collection": "penstock.connectors.builtin.collection",
    "penstock.connectors.datagen": "penstock.connectors.builtin.datagen",
    "penstock.connectors.generic": "penstock.connectors.builtin.generic",
    "penstock.connectors.sequence": "penstock.connectors.builtin.datagen",
    "penstock.connectors.socket": "penstock.connectors.builtin.socket",
    "penstock.connectors.cut": "penstock.connectors.combinators.source_wrapper",
    "penstock.connectors.history": "penstock.connectors.combinators.backfill",
    "penstock.connectors.hybrid": "penstock.connectors.combinators.hybrid",
    "penstock.connectors.materialised": "penstock.connectors.combinators.materialized",
    "penstock.connectors.tables": "penstock.connectors.combinators.table_versions",
    "penstock.connectors.wrapped": "penstock.connectors.combinators.source_wrapper",
    "penstock.connectors.delta.source": "penstock.connectors.lake.delta.source",
    "penstock.connectors.delta.table": "penstock.connectors.lake.delta.table",
    "penstock.connectors.delta.writer": "penstock.connectors.lake.delta.sink",
    "penstock.connectors.iceberg.table": "penstock.connectors.lake.iceberg",
    "penstock.connectors.iceberg.writer": "penstock.connectors.lake.iceberg",
    "penstock.connectors.files.table_files": "penstock.connectors.lake.table_files",
    "penstock.connectors.on_error": "penstock.formats.bad_records",
    "penstock.connectors.lateness": "penstock.event_time.watermark_generators",
    "penstock.event_time.learned_lateness": "penstock.event_time.watermark_generators",
    "penstock.connectors.watermark_strategy": "penstock.event_time.watermark_strategy",
    "penstock.connectors.watermarks": "penstock.event_time.watermark_tracker",
    "penstock.testing.cue": "penstock.testing.scripted_source",
    "penstock.travel.replayed": "penstock.replay.replayed",
    "penstock.connectors.builtin.collect": "penstock.connectors.builtin.driver_output",
    "penstock.connectors.builtin.driver_rows": "penstock.connectors.builtin.collection",
    "penstock.connectors.database.source_ranges": "penstock.connectors.database.source_reader",
    "penstock.connectors.files.commit": "penstock.connectors.files.writer",
    "penstock.connectors.files.default_bucket": "penstock.connectors.files.buckets",
    "penstock.connectors.kafka.reader_decode": "penstock.connectors.kafka.reader",
    "penstock.connectors.lake.delta.writer": "penstock.connectors.lake.delta.sink",
    "penstock.connectors.lake.iceberg.table": "penstock.connectors.lake.iceberg",
    "penstock.connectors.lake.iceberg.writer": "penstock.connectors.lake.iceberg",
    "penstock.connectors.staged.writer": "penstock.connectors.staged",
}
"""Module as snapshots may name it, and as it is now."""
