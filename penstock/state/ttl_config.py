"""``StateTtlConfig``: how long entries of a state live.

A config says when an entry's clock starts again, whether an expired entry that was not cleaned up yet may
still be seen, by which clock, and how entries that nobody touches go away.  What it does is in
:mod:`penstock.state.ttl`.
"""

from __future__ import annotations

from enum import Enum

from penstock.core.durations import DurationLike, to_millis
from penstock.core.errors import ConfigError
from penstock.core.wanted import wanted


class _CleanupStrategy:
    """How expired entries are removed when nobody touches them."""


class _EmptyCleanupStrategy(_CleanupStrategy):
    """A strategy without settings."""


class _IncrementalCleanupStrategy(_CleanupStrategy):
    """Looks at a few entries on each state access."""

    def __init__(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> None:
        self._cleanup_size = cleanup_size
        self._for_every_record = run_cleanup_for_every_record

    def get_cleanup_size(self) -> int:
        """Entries to look at each time."""
        return self._cleanup_size

    def run_cleanup_for_every_record(self) -> bool:
        """What was asked for; Penstock cleans up on state access in either case."""
        return self._for_every_record


class _RocksdbCompactFilterCleanupStrategy(_CleanupStrategy):
    """Drops expired entries while the store compacts its files."""

    def __init__(
        self, query_time_after_num_entries: int, periodic_compaction_time: DurationLike | None = None
    ) -> None:
        self._after = query_time_after_num_entries
        self._periodic = periodic_compaction_time

    def get_query_time_after_num_entries(self) -> int:
        """Entries after which the clock is read again."""
        return self._after

    def get_periodic_compaction_time(self) -> DurationLike | None:
        """How often files are compacted even if nothing changed."""
        return self._periodic


class _Strategies(Enum):
    """The known ways to clean up."""

    FULL_STATE_SCAN_SNAPSHOT = 0
    INCREMENTAL_CLEANUP = 1
    ROCKSDB_COMPACTION_FILTER = 2


class _CleanupStrategies:
    """The chosen ways to clean up."""

    Strategies = _Strategies
    CleanupStrategy = _CleanupStrategy
    EmptyCleanupStrategy = _EmptyCleanupStrategy
    IncrementalCleanupStrategy = _IncrementalCleanupStrategy
    RocksdbCompactFilterCleanupStrategy = _RocksdbCompactFilterCleanupStrategy
    EMPTY_STRATEGY = _EmptyCleanupStrategy()

    def __init__(
        self, strategies: dict[_Strategies, _CleanupStrategy], is_cleanup_in_background: bool
    ) -> None:
        self._strategies = dict(strategies)
        self._in_background = is_cleanup_in_background

    def is_cleanup_in_background(self) -> bool:
        """Whether the backend cleans up by itself."""
        return self._in_background

    def in_full_snapshot(self) -> bool:
        """Whether expired entries are left out of snapshots."""
        return _Strategies.FULL_STATE_SCAN_SNAPSHOT in self._strategies

    def get_incremental_cleanup_strategy(self) -> _IncrementalCleanupStrategy | None:
        """The settings for cleaning up on access, if chosen or on by default."""
        found = self._strategies.get(_Strategies.INCREMENTAL_CLEANUP)
        if isinstance(found, _IncrementalCleanupStrategy):
            return found
        return _IncrementalCleanupStrategy(5, False) if self._in_background else None

    def get_rocksdb_compact_filter_cleanup_strategy(self) -> _RocksdbCompactFilterCleanupStrategy | None:
        """The settings for cleaning up by compaction, if chosen or on by default."""
        found = self._strategies.get(_Strategies.ROCKSDB_COMPACTION_FILTER)
        if isinstance(found, _RocksdbCompactFilterCleanupStrategy):
            return found
        return _RocksdbCompactFilterCleanupStrategy(1000) if self._in_background else None


class _UpdateType(Enum):
    """What starts an entry's clock again."""

    Disabled = 0
    OnCreateAndWrite = 1
    OnReadAndWrite = 2


class _StateVisibility(Enum):
    """Whether an expired entry may be seen."""

    ReturnExpiredIfNotCleanedUp = 0
    NeverReturnExpired = 1


class _TtlTimeCharacteristic(Enum):
    """The clock entries expire by. ``EventTime``, which PyFlink lacks, is the operator's watermark."""

    ProcessingTime = 0
    EventTime = 1


class StateTtlConfig:
    """How long entries of a state live; give it to ``StateDescriptor.enable_time_to_live``."""

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic
    CleanupStrategies = _CleanupStrategies

    def __init__(
        self,
        update_type: _UpdateType,
        state_visibility: _StateVisibility,
        ttl_time_characteristic: _TtlTimeCharacteristic,
        ttl: DurationLike,
        cleanup_strategies: _CleanupStrategies,
    ) -> None:
        if to_millis(ttl) <= 0:
            raise ConfigError(f"a time to live must be longer than 0 ms, got {ttl!r}")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies

    @staticmethod
    def new_builder(ttl: DurationLike) -> StateTtlConfig.Builder:
        """A builder with the defaults: counted from creation and writes, expired entries never seen."""
        return StateTtlConfig.Builder(ttl)

    def get_update_type(self) -> _UpdateType:
        """What starts an entry's clock again."""
        return self._update_type

    def get_state_visibility(self) -> _StateVisibility:
        """Whether an expired entry may be seen."""
        return self._state_visibility

    def get_ttl(self) -> DurationLike:
        """How long an entry lives."""
        return self._ttl

    def get_ttl_time_characteristic(self) -> _TtlTimeCharacteristic:
        """The clock entries expire by."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether entries expire at all."""
        return self._update_type is not _UpdateType.Disabled

    def get_cleanup_strategies(self) -> _CleanupStrategies:
        """How expired entries are removed."""
        return self._cleanup_strategies

    class Builder:
        """Builds a :class:`StateTtlConfig`."""

        def __init__(self, ttl: DurationLike) -> None:
            self._ttl = ttl
            self._update_type = _UpdateType.OnCreateAndWrite
            self._visibility = _StateVisibility.NeverReturnExpired
            self._characteristic = _TtlTimeCharacteristic.ProcessingTime
            self._strategies: dict[_Strategies, _CleanupStrategy] = {}
            self._in_background = True

        def set_update_type(self, update_type: _UpdateType) -> StateTtlConfig.Builder:
            """What starts an entry's clock again."""
            self._update_type = wanted(_UpdateType, update_type)
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """Writing starts the clock again (the default)."""
            return self.set_update_type(_UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """Reading starts it again too."""
            return self.set_update_type(_UpdateType.OnReadAndWrite)

        def set_state_visibility(self, state_visibility: _StateVisibility) -> StateTtlConfig.Builder:
            """Whether an expired entry may be seen."""
            self._visibility = wanted(_StateVisibility, state_visibility)
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """Expired entries are seen until they are removed."""
            return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """Expired entries are never seen (the default)."""
            return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: _TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """The clock entries expire by."""
            self._characteristic = wanted(_TtlTimeCharacteristic, ttl_time_characteristic)
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Entries expire by the wall clock (the default)."""
            return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Entries expire as the watermark advances, so a replay forgets what the first run forgot."""
            return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.EventTime)

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Leave expired entries out of snapshots."""
            self._strategies[_Strategies.FULL_STATE_SCAN_SNAPSHOT] = _CleanupStrategies.EMPTY_STRATEGY
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Look at ``cleanup_size`` entries on each state access (heap only)."""
            self._strategies[_Strategies.INCREMENTAL_CLEANUP] = _IncrementalCleanupStrategy(
                cleanup_size, run_cleanup_for_every_record
            )
            return self

        def cleanup_in_rocksdb_compact_filter(
            self, query_time_after_num_entries: int, periodic_compaction_time: DurationLike | None = None
        ) -> StateTtlConfig.Builder:
            """Taken for compatibility: RocksDB gives Python no say in compaction, see the state guide."""
            self._strategies[_Strategies.ROCKSDB_COMPACTION_FILTER] = _RocksdbCompactFilterCleanupStrategy(
                query_time_after_num_entries, periodic_compaction_time
            )
            return self

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Remove expired entries only where a strategy was chosen."""
            self._in_background = False
            return self

        def set_ttl(self, ttl: DurationLike) -> StateTtlConfig.Builder:
            """How long an entry lives."""
            self._ttl = ttl
            return self

        def build(self) -> StateTtlConfig:
            """The config."""
            return StateTtlConfig(
                self._update_type,
                self._visibility,
                self._characteristic,
                self._ttl,
                _CleanupStrategies(self._strategies, self._in_background),
            )
