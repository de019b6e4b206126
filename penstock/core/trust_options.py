"""Settings about whose snapshots a job restores, and what may be in them."""

from __future__ import annotations

from typing import Any

from penstock.core.option import Kind, Option

ALLOWED_CLASSES: Option[str | None] = Option(
    "penstock.restore.allowed-classes",
    Kind.STRING,
    None,
    "Names that snapshots may hold beside data types and the program's own classes, separated by commas: "
    "`package.module.Name`, or a pattern such as `package.module.*`. Whoever can change a snapshot can call "
    "what is named here.",
)
OTHERS_MAY_WRITE: Option[bool] = Option(
    "penstock.restore.others-may-write",
    Kind.BOOLEAN,
    "false",
    "Whether local directories that other users own or may write to can hold snapshots.",
)
KEY_FILE: Option[str | None] = Option(
    "penstock.snapshots.key-file",
    Kind.STRING,
    None,
    "A file of at least 32 bytes that only you can read, on the driver: snapshots are signed with it, and "
    "none is restored that is not.",
)
UNSIGNED_TOO: Option[bool] = Option(
    "penstock.snapshots.unsigned-too",
    Kind.BOOLEAN,
    "false",
    "With a key file: whether snapshots without a signature are restored all the same, for the first start "
    "after the key was made.",
)

TRUST_OPTIONS: dict[str, Option[Any]] = {
    option.key: option for option in (ALLOWED_CLASSES, OTHERS_MAY_WRITE, KEY_FILE, UNSIGNED_TOO)
}
"""By key; :mod:`penstock.core.config` joins them to the others."""
