"""Where files go if nobody chose: a folder per hour of writing, as in Flink.

Before that was so, the default was the base path itself.  A job that began then goes on there, so that
whoever reads its files finds the new ones beside the old: its snapshots say nothing of buckets, and its
files lie in the base path.  What was decided once is noted in every snapshot.
"""

from __future__ import annotations

import logging
from enum import Enum
from typing import Any

from penstock.connectors.files.buckets import BasePathBuckets, BucketAssigner
from penstock.connectors.files.naming import PartNames
from penstock.connectors.sink import WriterContext
from penstock.storage.places import storage_of

_NOTE = "default bucket"
_log = logging.getLogger("penstock")


class DefaultBucket(Enum):
    """The two defaults."""

    HOUR = "hour"
    BASE_PATH = "base path"

    def assigner(self) -> BucketAssigner:
        """What divides records so."""
        if self is DefaultBucket.BASE_PATH:
            return BasePathBuckets()
        return BucketAssigner.date_time_bucket_assigner()


def buckets_of(
    chosen: BucketAssigner | None, base_path: str, names: PartNames, context: WriterContext
) -> tuple[BucketAssigner, list[Any]]:
    """What divides the records of a writer, and its notes."""
    if chosen is not None:
        return chosen, []
    default = _default(base_path, names, context)
    return default.assigner(), [(_NOTE, default.value)]


def _default(base_path: str, names: PartNames, context: WriterContext) -> DefaultBucket:
    """The default for a sink that starts, or goes on from a snapshot."""
    for note in context.restored_notes:
        return DefaultBucket(note[1])
    if context.restored_epoch is None or not _has_parts(base_path, names):
        return DefaultBucket.HOUR
    if context.subtask == 0:
        _log.warning(
            "the file sink %r goes on in %r itself, where its files are; a new job would write into a folder "
            "per hour. To choose, call with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()) or "
            "with_bucket_assigner(BucketAssigner.date_time_bucket_assigner()) of its builder",
            context.sink_id,
            base_path,
        )
    return DefaultBucket.BASE_PATH


def _has_parts(base_path: str, names: PartNames) -> bool:
    """Whether files of the sink lie in the base path, not below it."""
    storage = storage_of(base_path)
    if not storage.exists(base_path):
        return False
    base = f"{base_path.rstrip('/')}/"
    return any(names.is_kept(path.removeprefix(base)) for path in storage.list_files(base_path))
