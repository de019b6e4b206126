"""Part files: their names, hidden and finished, and when one is closed and the next begun.

A finished file is ``<prefix>-<run>-<subtask>-<counter><suffix>``.  ``run`` is new for every writer
(attempt number and a random token), so names never meet again: not after a restart, not at another
parallelism, not when another job writes into the same directory.

Until it is committed the file has a hidden name that also says whose it is: a tag made of job and sink,
and the attempt.  That is how a later attempt recognises what an earlier one left behind.

Whatever the rolling policy, every open file is closed at every barrier: what a snapshot covers is then a set
of whole files, and a writer has no state to restore.  A policy can only ask for more, smaller files.  It is
asked after each batch and at each bucket check, so a file may exceed the size by one batch.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass

from penstock.connectors.sink import WriterContext, digest_of_sink
from penstock.core.durations import DurationLike, to_bytes, to_millis
from penstock.core.errors import ConfigError
from penstock.core.ids import Epoch

_HIDDEN = re.compile(r"\..+\.(?P<tag>[0-9a-f]{12})-(?P<generation>\d+)(?:-(?P<after>\d+))?\.inprogress")


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """How the names of finished files begin and end."""

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        if "/" in self.part_prefix + self.part_suffix or self.part_prefix.startswith((".", "_")):
            raise ConfigError(
                f"part prefix {self.part_prefix!r} and suffix {self.part_suffix!r} make names that are "
                "hidden or not in the bucket's folder; leave out slashes and a leading dot or underscore"
            )

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Start from the defaults: prefix ``part``, no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """The beginning of each file's name."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """The end of each file's name, such as ``.json``."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Builds an :class:`OutputFileConfig`."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the beginning of file names."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the end of file names."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """The settings."""
            return OutputFileConfig(self._prefix, self._suffix)


class PartNames:
    """Names for the files of one writer."""

    def __init__(self, config: OutputFileConfig, context: WriterContext) -> None:
        self._config = config
        self._generation = context.generation
        self._restored = context.restored_epoch
        self._tag = tag_of(context.job_name, context.sink_id)
        self._stem = f"{context.generation}_{uuid.uuid4().hex[:16]}-{context.subtask}"
        self._counter = 0

    def next_pair(self, after: Epoch | None = None, prefix: str = "") -> tuple[str, str]:
        """Hidden and final name of the next file.

        A file that may be held over several barriers says ``after`` which one it was begun.
        """
        config = self._config
        final = f"{prefix}{config.part_prefix}-{self._stem}-{self._counter}{config.part_suffix}"
        self._counter += 1
        owner = f"{self._tag}-{self._generation}" + ("" if after is None else f"-{after}")
        return f".{final}.{owner}.inprogress", final

    def is_own(self, name: str) -> bool:
        """Whether this is a hidden file of the same sink of the same job."""
        match = _HIDDEN.fullmatch(name)
        return match is not None and match["tag"] == self._tag

    def is_leftover(self, name: str) -> bool:
        """Whether this is a hidden file of the same sink that an earlier attempt left and nobody wants.

        One that was begun before the restored barrier is complete, and held by the restored state.
        """
        match = _HIDDEN.fullmatch(name) if self.is_own(name) else None
        if match is None or int(match["generation"]) >= self._generation:
            return False
        return match["after"] is None or self._restored is None or int(match["after"]) >= self._restored

    def is_kept(self, name: str) -> bool:
        """Whether this may be a visible file of such a sink, or a hidden one that a snapshot holds."""
        if name.startswith("."):
            return self.is_own(name) and not self.is_leftover(name)
        prefix, suffix = re.escape(self._config.part_prefix), re.escape(self._config.part_suffix)
        return re.fullmatch(rf"(compacted-)?{prefix}-\d+_[0-9a-f]{{16}}-\d+-\d+{suffix}", name) is not None


def generation_of(pending: str) -> int | None:
    """The attempt that wrote a hidden file; ``None`` if the name does not say."""
    match = _HIDDEN.fullmatch(pending.rpartition("/")[2])
    return None if match is None else int(match["generation"])


def is_hidden_of(name: str, tag: str, generation: int) -> bool:
    """Whether this is a hidden file of the sink with that tag, of an attempt up to ``generation``."""
    match = _HIDDEN.fullmatch(name)
    return match is not None and match["tag"] == tag and int(match["generation"]) <= generation


def tag_of(job_name: str, sink_id: str) -> str:
    """What the hidden files of a sink have in common."""
    return digest_of_sink(job_name, sink_id)[:12]


@dataclass(frozen=True, slots=True)
class PartInfo:
    """What a policy may know about an open file."""

    size: int
    """Bytes that reached the file; a format that gathers blocks may hold back more."""
    created_ms: int
    last_write_ms: int


class RollingPolicy(ABC):
    """Decides whether to close an open part file now."""

    @abstractmethod
    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        """Whether to close the file; asked after each batch and at each bucket check."""

    @staticmethod
    def default_rolling_policy(
        part_size: int | str = 1024 * 1024 * 128,
        rollover_interval: DurationLike = 60 * 1000,
        inactivity_interval: DurationLike = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Roll by size, age and time without writes."""
        return DefaultRollingPolicy(
            to_bytes(part_size), to_millis(rollover_interval), to_millis(inactivity_interval)
        )

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Roll at barriers only."""
        return OnCheckpointRollingPolicy()


@dataclass(frozen=True, slots=True)
class DefaultRollingPolicy(RollingPolicy):
    """Rolls a file that is large, old or no longer written to."""

    part_size: int
    rollover_ms: int
    inactivity_ms: int

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        return (
            part.size >= self.part_size
            or now_ms - part.created_ms >= self.rollover_ms
            or now_ms - part.last_write_ms >= self.inactivity_ms
        )


class OnCheckpointRollingPolicy(RollingPolicy):
    """Rolls at barriers only."""

    def should_roll(self, part: PartInfo, now_ms: int) -> bool:
        return False
