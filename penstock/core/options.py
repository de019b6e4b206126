"""The table of all settings: key, kind, default, meaning.

Code asks a :class:`~penstock.core.config.Configuration` for a constant of this module, never for a
bare key, so each default stands in one place.  ``docs/configuration.md`` is rendered from this table.
"""

from __future__ import annotations

from penstock.core.option import LATER as _LATER
from penstock.core.option import UNUSED as _UNUSED
from penstock.core.option import Kind, Option, OptionGroup

OPTIONS = OptionGroup()
"""Every setting by its key, in the order of the documentation."""

_add = OPTIONS.add


def _bool(key: str, default: bool, doc: str, *older: str) -> Option[bool]:
    return _add(key, Kind.BOOLEAN, str(default).lower(), doc, *older)


def _integer(
    key: str, default: int, doc: str, *older: str, least: int = 0, most: int | None = None
) -> Option[int]:
    unset = default if default < least else None
    return _add(key, Kind.INT, str(default), doc, *older, least=least, most=most, unset=unset)


def _maybe_integer(
    key: str, doc: str, *older: str, least: int = 0, most: int | None = None
) -> Option[int | None]:
    return _add(key, Kind.INT, None, doc, *older, least=least, most=most)


def _number(key: str, default: float, doc: str, *, least: float, most: float) -> Option[float]:
    return _add(key, Kind.FLOAT, str(default), doc, least=least, most=most)


def _text(key: str, doc: str, *older: str) -> Option[str | None]:
    return _add(key, Kind.STRING, None, doc, *older)


def _duration(key: str, default: str, doc: str, *older: str, least: int = 0) -> Option[int]:
    return _add(key, Kind.DURATION, default, doc, *older, least=least)


def _maybe_duration(key: str, doc: str, *older: str, least: int = 0) -> Option[int | None]:
    return _add(key, Kind.DURATION, None, doc, *older, least=least)


def _memory(key: str, default: str, doc: str, *older: str) -> Option[int]:
    return _add(key, Kind.MEMORY, default, doc, *older)


def _choice(key: str, choices: str, default: str, doc: str, *older: str) -> Option[str]:
    return _add(key, Kind.ENUM, default, doc, *older, choices=tuple(choices.split()))


def _maybe_choice(key: str, choices: str, doc: str, *older: str) -> Option[str | None]:
    return _add(key, Kind.ENUM, None, doc, *older, choices=tuple(choices.split()))


# --- execution and pipeline ---
RUNTIME_MODE = _choice(
    "execution.runtime-mode",
    "STREAMING BATCH AUTOMATIC",
    "STREAMING",
    "STREAMING, or BATCH: final results of sources that end, as Spark stages; AUTOMATIC is BATCH if all end.",
)
_MOST_SUBTASKS = 32_768
DEFAULT_PARALLELISM = _maybe_integer(
    "parallelism.default", "Subtasks of a step that does not say.", least=1, most=_MOST_SUBTASKS
)
MAX_PARALLELISM = _integer(
    "pipeline.max-parallelism",
    -1,
    "Number of key groups, fixed by the first snapshot; -1 derives it.",
    least=1,
    most=_MOST_SUBTASKS,
)
JOB_NAME = _text(
    "pipeline.name",
    "Name of the job, if execute() is not given one. Without either it goes by its program's file.",
)
AUTO_WATERMARK_INTERVAL = _duration(
    "pipeline.auto-watermark-interval", "200 ms", "How often watermarks are emitted; 0 turns them off."
)
WATERMARK_STALL_TIMEOUT = _duration(
    "pipeline.watermark-stall-timeout", "60 s", "How long a watermark may stand still unsaid; 0 is for ever."
)
LATE_RECORDS_INTERVAL = _duration(
    "pipeline.late-records-interval", "60 s", "How often dropped late records are told of; 0 never tells."
)
AUTO_GENERATE_UIDS = _bool(
    "pipeline.auto-generate-uids", True, "If false, a stateful step without a uid is an error."
)
OPERATOR_CHAINING = _bool(
    "pipeline.operator-chaining.enabled",
    True,
    "Whether steps that can are run as one task.",
    "pipeline.operator-chaining",
)
_UNALIGNED_SPLITS = "pipeline.watermark-alignment.allow-unaligned-source-splits"
ALLOW_UNALIGNED_SPLITS = _bool(_UNALIGNED_SPLITS, False, "Has no effect: alignment pauses single splits.")
OBJECT_REUSE = _bool(
    "pipeline.object-reuse",
    False,
    "Whether steps and state share records that can change (dict, list, Row, ...) instead of getting a copy "
    "each. Only for programs whose functions never change what they were given, stored or emitted.",
)
JARS = _text("pipeline.jars", _UNUSED)
JOB_PARAMETERS: Option[dict[str, str]] = _add(
    "pipeline.global-job-parameters",
    Kind.MAP,
    "",
    "What functions read with RuntimeContext.get_job_parameter: a:1,b:2, or a key for each.",
)
BUFFER_TIMEOUT = _duration(
    "execution.buffer-timeout.interval",
    "100 ms",
    "How long gathered output may wait while the task is busy.",
    "execution.buffer-timeout",
)
COMMITTER_RETRIES = _integer(
    "sink.committer.retries", 10, "How often a commit that asks to be retried is tried again."
)

# --- snapshots ---
CHECKPOINT_INTERVAL = _maybe_duration(
    "execution.checkpointing.interval",
    "Time between periodic snapshots; none are taken without it.",
    least=1,
)
CHECKPOINT_MODE = _choice(
    "execution.checkpointing.mode",
    "EXACTLY_ONCE AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "Whether channels are held while barriers align.",
)
CHECKPOINT_TIMEOUT = _duration(
    "execution.checkpointing.timeout", "10 min", "A snapshot that takes longer is given up.", least=1
)
CHECKPOINT_MIN_PAUSE = _duration(
    "execution.checkpointing.min-pause", "0 ms", "Least time between the end of one and the next."
)
CHECKPOINT_MAX_CONCURRENT = _integer(
    "execution.checkpointing.max-concurrent-checkpoints",
    1,
    "Snapshots that may be in flight at once.",
    least=1,
)
CHECKPOINT_TOLERABLE_FAILURES = _integer(
    "execution.checkpointing.tolerable-failed-checkpoints",
    0,
    "Consecutive failed snapshots that do not restart the job.",
)
CHECKPOINT_RETENTION = _choice(
    "execution.checkpointing.externalized-checkpoint-retention",
    "NO_EXTERNALIZED_CHECKPOINTS DELETE_ON_CANCELLATION RETAIN_ON_CANCELLATION",
    "NO_EXTERNALIZED_CHECKPOINTS",
    "What happens to snapshots on cancellation; after a failure they are kept, after success deleted.",
)
CHECKPOINT_NUM_RETAINED = _integer(
    "execution.checkpointing.num-retained",
    1,
    "Completed snapshots kept.",
    "state.checkpoints.num-retained",
    least=1,
)
CHECKPOINT_STORAGE = _maybe_choice(
    "execution.checkpointing.storage",
    "jobmanager filesystem",
    "Where snapshots go; filesystem if a directory is set, else the driver's memory.",
    "state.checkpoint-storage",
)
CHECKPOINT_DIR = _text(
    "execution.checkpointing.dir",
    "Directory or URL for snapshots.",
    "state.checkpoints.dir",
    "state.backend.fs.checkpointdir",
)
SAVEPOINT_DIR = _text(
    "execution.checkpointing.savepoint-dir",
    "Directory or URL that savepoints go to when none is named.",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)
CHECKPOINT_SUBDIR = _bool(
    "execution.checkpointing.create-subdir",
    True,
    _UNUSED,
    "state.checkpoints.create-subdir",
)
CHECKPOINT_INCREMENTAL = _bool(
    "execution.checkpointing.incremental",
    True,
    "Whether checkpoints of the backend rocksdb store only files that are new since earlier ones.",
    "state.backend.incremental",
)
UNALIGNED = _bool(
    "execution.checkpointing.unaligned.enabled",
    False,
    "Whether barriers overtake queued records, which then become part of the checkpoint.",
    "execution.checkpointing.unaligned",
)
UNALIGNED_FORCED = _bool("execution.checkpointing.unaligned.forced", False, _UNUSED)
ALIGNED_TIMEOUT = _duration(
    "execution.checkpointing.aligned-checkpoint-timeout",
    "0 s",
    "With unaligned checkpoints: how long each is tried aligned first; 0 starts unaligned.",
    "execution.checkpointing.alignment-timeout",
)
INTERRUPTIBLE_TIMERS = _bool(
    "execution.checkpointing.unaligned.interruptible-timers.enabled",
    False,
    _LATER,
)
CHECKPOINTS_AFTER_FINISH = _bool(
    "execution.checkpointing.checkpoints-after-tasks-finish",
    True,
    _UNUSED,
    "execution.checkpointing.checkpoints-after-tasks-finish.enabled",
)
INTERVAL_DURING_BACKLOG = _maybe_duration("execution.checkpointing.interval-during-backlog", _LATER)
INLINE_THRESHOLD = _memory(
    "execution.checkpointing.data-inline-threshold",
    "20 kb",
    "State smaller than this is stored in the manifest.",
    "state.storage.fs.memory-threshold",
    "state.backend.fs.memory-threshold",
)
FILE_MERGING = _bool("execution.checkpointing.file-merging.enabled", False, _UNUSED)
LOCAL_BACKUP = _bool(
    "execution.checkpointing.local-backup.enabled",
    False,
    "Whether slots keep copies of their checkpoint files on the disk of their machine, and restore from them "
    "what is there: for checkpoints that are far away.",
    "state.backend.local-recovery",
    "execution.state-recovery.from-local",
)
LOCAL_BACKUP_DIRS = _text(
    "execution.checkpointing.local-backup.dirs",
    "The directory of these copies; that of RocksDB's files if not set, or where Spark keeps its own.",
    "taskmanager.state.local.root-dirs",
)
STATE_BACKEND: Option[str] = _add(
    "state.backend.type",
    Kind.ENUM,
    "hashmap",
    "Where keyed state lives: in the memory of the slots, or on their disks. The older values jobmanager "
    "and filesystem are hashmap.",
    "state.backend",
    choices=("hashmap", "rocksdb"),
    aliases=(("jobmanager", "hashmap"), ("filesystem", "hashmap")),
)
ROCKSDB_LOCALDIR = _text(
    "state.backend.rocksdb.localdir",
    "Where slots keep RocksDB's files; a local directory of Spark or the system if not set.",
)
ROCKSDB_MEMORY = _memory(
    "state.backend.rocksdb.memory.fixed-per-slot",
    "128 mb",
    "Block cache and write buffers of all RocksDB databases of a slot together.",
)
ROCKSDB_CACHE_ENTRIES = _integer(
    "penstock.rocksdb.cache.entries",
    1_000_000,
    "Entries per state and subtask kept as Python objects at most.",
)
ROCKSDB_CACHE_BYTES = _memory(
    "penstock.rocksdb.cache.bytes", "96 mb", "Memory that these objects may take, by estimate."
)
RECOVERY_PATH = _text(
    "execution.state-recovery.path", "Snapshot or savepoint to start from.", "execution.savepoint.path"
)
IGNORE_UNCLAIMED_STATE = _bool(
    "execution.state-recovery.ignore-unclaimed-state",
    False,
    "Whether state of steps that no longer exist may be left behind.",
    "execution.savepoint.ignore-unclaimed-state",
)
CLAIM_MODE = _choice(
    "execution.state-recovery.claim-mode",
    "NO_CLAIM CLAIM LEGACY",
    "NO_CLAIM",
    "Whether the job takes over the snapshot it was started from, and deletes it (CLAIM).",
    "execution.savepoint-restore-mode",
)

# --- restarts ---
RESTART_TYPE = _maybe_choice(
    "restart-strategy.type",
    "none off disable fixed-delay fixeddelay failure-rate failurerate exponential-delay exponentialdelay",
    "How failures are answered; exponential-delay with snapshots on, else none.",
    "restart-strategy",
)
FIXED_ATTEMPTS = _integer("restart-strategy.fixed-delay.attempts", 1, "Restarts before giving up.")
FIXED_DELAY = _duration("restart-strategy.fixed-delay.delay", "1 s", "Pause before each restart.")
RATE_MAX_FAILURES = _integer(
    "restart-strategy.failure-rate.max-failures-per-interval", 1, "Failures allowed per interval."
)
RATE_INTERVAL = _duration(
    "restart-strategy.failure-rate.failure-rate-interval", "1 min", "Length of that interval."
)
RATE_DELAY = _duration("restart-strategy.failure-rate.delay", "1 s", "Pause before each restart.")
EXPONENTIAL_INITIAL = _duration("restart-strategy.exponential-delay.initial-backoff", "1 s", "First pause.")
EXPONENTIAL_MAX = _duration("restart-strategy.exponential-delay.max-backoff", "1 min", "Longest pause.")
EXPONENTIAL_MULTIPLIER = _number(
    "restart-strategy.exponential-delay.backoff-multiplier",
    1.5,
    "Growth of the pause per failure.",
    least=1,
    most=1_000,
)
EXPONENTIAL_RESET = _duration(
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    "1 h",
    "Time without failure after which the pause starts from the first again.",
)
EXPONENTIAL_JITTER = _number(
    "restart-strategy.exponential-delay.jitter-factor", 0.1, "Random part of the pause.", least=0, most=1
)
EXPONENTIAL_ATTEMPTS = _maybe_integer(
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
    "Failures before giving up, unless the pause was reset between; unlimited if not set.",
)

# --- the engine ---
HEARTBEAT_INTERVAL = _duration("heartbeat.interval", "10 s", "How often slots say they are alive.", least=1)
HEARTBEAT_TIMEOUT = _duration(
    "heartbeat.timeout", "50 s", "Silence after which a slot counts as lost.", least=1
)
BATCH_MAX_ROWS = _integer("penstock.batch.max-rows", 8192, "Rows that travel together at most.", least=1)
CHANNEL_BYTES = _memory("penstock.channel.bytes", "8 mb", "Bytes in flight per channel at most.")
NETWORK_MEMORY = _memory(
    "taskmanager.memory.network.max",
    "256 mb",
    "Bytes of records in flight that a slot holds at most; its channels share them, at least 32 kb each.",
    "taskmanager.network.memory.max",
)
DEAL_BY_ROOM = _bool(
    "taskmanager.network.adaptive-partitioner.enabled",
    True,
    "Whether `rebalance` and `rescale` give more to subtasks that work faster once others fall behind; "
    "if not, they deal strictly in turn.",
)
SPARK_MASTER = _text("penstock.spark.master", "Spark master, where Spark itself is given none.")
SLOTS_TIMEOUT = _duration(
    "penstock.slots.timeout", "2 min", "How long to wait for Spark to start all slots together.", least=1
)
DEPLOY_TIMEOUT = _duration(
    "penstock.deploy.timeout",
    "30 min",
    "How long slots may take to build their tasks and read their state.",
    least=1,
)

# --- PyFlink's Python settings ---
PYTHON_EXECUTION_MODE = _choice("python.execution-mode", "process thread", "process", _UNUSED)
PYTHON_BUNDLE_SIZE = _integer("python.fn-execution.bundle.size", 1000, _UNUSED)
PYTHON_BUNDLE_TIME = _duration("python.fn-execution.bundle.time", "1000 ms", _UNUSED)
PYTHON_STATE_CACHE = _integer("python.state.cache-size", 1000, _UNUSED)
PYTHON_FILES = _text(
    "python.files", "Modules, directories, zip files, wheels and eggs on the functions' path."
)
PYTHON_REQUIREMENTS = _text("python.requirements", "Requirements file for the functions; `FILE#PACKAGES`.")
PYTHON_ARCHIVES = _text("python.archives", "Archives in the functions' working directory; `FILE#TARGET`.")
PYTHON_EXECUTABLE = _text("python.executable", "Python interpreter of the functions.")
PYTHON_PATH = _text("python.pythonpath", _UNUSED)
