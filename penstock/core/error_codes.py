"""The codes of errors: one for each kind of error, and one for each situation that many people meet.

A code is for ever: it is in tickets, in notes and in what search engines know.  A new one takes a free number
of its family (the hundreds); one that is no longer used goes to ``RETIRED``, and its section stays.  What
each means, and the way out, is in ``docs/errors``; ``scripts/write_errors.py`` makes of it what
``penstock explain`` shows.  Design note 048.
"""

from __future__ import annotations

from enum import StrEnum, unique

RETIRED: frozenset[str] = frozenset()
"""Codes that were given once and are not any more."""


@unique
class Code(StrEnum):
    """What an error is known by."""

    PENSTOCK = "PEN-0001"

    CONFIG = "PEN-0100"
    UNKNOWN_SETTING = "PEN-0101"
    SETTING_VALUE = "PEN-0102"
    SETTINGS_FILE = "PEN-0103"
    FOREIGN_SETTINGS_FILE = "PEN-0104"
    PACKAGE_MISSING = "PEN-0105"
    NO_SUCH_JOB = "PEN-0106"
    RESCALE = "PEN-0107"
    UNALIGNED = "PEN-0108"
    BATCH_FROM_SNAPSHOT = "PEN-0109"

    GRAPH = "PEN-0200"
    NOTHING_TO_RUN = "PEN-0201"
    NOT_EXECUTED = "PEN-0202"
    FUNCTION_NOT_PICKLABLE = "PEN-0203"
    UID_TWICE = "PEN-0204"
    UID_MISSING = "PEN-0205"
    ABOVE_MAX_PARALLELISM = "PEN-0206"
    NOT_KEYED = "PEN-0207"
    OTHER_ENVIRONMENT = "PEN-0208"
    ENDLESS_BATCH = "PEN-0209"
    FORWARD = "PEN-0210"
    NO_STEP_HERE = "PEN-0211"

    KEY = "PEN-0300"
    KEY_NULL = "PEN-0301"
    KEY_UNSTABLE = "PEN-0302"
    NO_CURRENT_KEY = "PEN-0303"
    TIMESTAMP = "PEN-0310"
    NO_TIMESTAMP = "PEN-0311"
    TIMESTAMP_VALUE = "PEN-0312"
    TYPE = "PEN-0320"
    DECLARED_TYPE = "PEN-0321"
    RECORD_NOT_PICKLABLE = "PEN-0322"

    SNAPSHOT = "PEN-0400"
    CORRUPT_SNAPSHOT = "PEN-0401"
    FORMAT_VERSION = "PEN-0402"
    NO_SNAPSHOT = "PEN-0403"
    UNCLAIMED_STATE = "PEN-0404"
    MAX_PARALLELISM_FIXED = "PEN-0405"
    NO_WHOLE_SNAPSHOT = "PEN-0406"
    CLASS_GONE = "PEN-0407"
    STATE_NOT_PICKLABLE = "PEN-0408"
    STATE_CHANGED = "PEN-0409"
    CHECKPOINT_NOT_SAVEPOINT = "PEN-0410"
    SAVEPOINT_THERE = "PEN-0411"
    SAVEPOINT_DIRECTORY = "PEN-0412"
    LOOK_LIMIT = "PEN-0413"
    LOOK_NOTHING = "PEN-0414"
    FENCED = "PEN-0430"

    STORE_UNUSABLE = "PEN-0501"
    STORE_FULL = "PEN-0502"
    STATE_TOO_LARGE = "PEN-0503"
    MISSING_FILE = "PEN-0504"
    NO_FILE_SYSTEM = "PEN-0505"

    CONNECTOR = "PEN-0600"
    POSITION_GONE = "PEN-0601"
    DECODE = "PEN-0602"
    LOG_CORRUPT = "PEN-0603"
    NOT_COMMITTED = "PEN-0604"
    DATABASE_UNREACHABLE = "PEN-0605"
    DATABASE_TABLE = "PEN-0606"
    DATABASE_URL = "PEN-0607"
    NO_TOPIC = "PEN-0608"
    KAFKA_UNREACHABLE = "PEN-0609"

    CLUSTER = "PEN-0700"
    SPARK_LOST = "PEN-0701"
    TOO_FEW_SLOTS = "PEN-0702"
    DYNAMIC_ALLOCATION = "PEN-0703"
    NO_SPARK = "PEN-0704"
    SPARK_CONNECT = "PEN-0705"
    WORKER_PYTHON = "PEN-0706"
    PROCESS_LOST = "PEN-0707"
    PORTS = "PEN-0708"
    DRIVER_SILENT = "PEN-0709"

    SQL = "PEN-0800"
    UNKNOWN_COLUMN = "PEN-0801"
    COLUMN_TWICE = "PEN-0802"
    ARGUMENT_TYPES = "PEN-0803"
    NO_EVENT_TIME = "PEN-0804"
    CEP_SKIP = "PEN-0805"

    TRANSPORT = "PEN-0900"
    KEY_FILE = "PEN-0901"
    CERTIFICATE = "PEN-0902"
    NOT_SIGNED = "PEN-0903"
    UNTRUSTED_PLACE = "PEN-0904"
    REST = "PEN-0905"

    USER_CODE = "PEN-1000"
    JOB_FAILED = "PEN-1001"
    JOB_CANCELLED = "PEN-1002"
    PROGRAM = "PEN-1003"
