"""Settings of who is trusted: the connections between a job's processes, and the snapshots it restores."""

from __future__ import annotations

from penstock.core.option import UNUSED as _UNUSED
from penstock.core.option import Kind, Option, OptionGroup

TRANSPORT_OPTIONS = OptionGroup()
_add = TRANSPORT_OPTIONS.add


def _text(key: str, doc: str, *older: str) -> Option[str | None]:
    return _add(key, Kind.STRING, None, doc, *older)


CONTROL_PORT: Option[str] = _add(
    "jobmanager.rpc.bind-port",
    Kind.PORTS,
    "0",
    "Port, or range of ports (50000-50100), that a job's driver listens on for its slots; 0 is any.",
)
DATA_PORT: Option[str] = _add(
    "taskmanager.data.port",
    Kind.PORTS,
    "0",
    "Port, or range of ports, that slots listen on for each other; as many as slots on a host. 0 is any.",
)
SLOT_CONTROL_PORT = _text(
    "taskmanager.rpc.port", "Has no effect: a slot calls its driver, and listens for slots only."
)
TLS_ENABLED: Option[bool | None] = _add(
    "security.ssl.internal.enabled",
    Kind.BOOLEAN,
    None,
    "TLS between driver and slots and between slots: true is always, false never; if not set, wherever a "
    "peer is on another host.",
)
TLS_KEYSTORE = _text(
    "security.ssl.internal.keystore",
    "PKCS#12 or PEM file, on the driver, with the key and certificate of all processes of the job; without "
    "it each job makes its own.",
    "security.ssl.keystore",
)
TLS_KEYSTORE_PASSWORD = _text(
    "security.ssl.internal.keystore-password", "Password of that file.", "security.ssl.keystore-password"
)
TLS_KEY_PASSWORD = _text(
    "security.ssl.internal.key-password",
    "Password of the key in it, if it is another one.",
    "security.ssl.key-password",
)
TLS_TRUSTSTORE = _text(
    "security.ssl.internal.truststore",
    "PKCS#12 or PEM file, on the driver, with the certificates by which peers are known; the key store's own "
    "if not set.",
    "security.ssl.truststore",
)
TLS_TRUSTSTORE_PASSWORD = _text(
    "security.ssl.internal.truststore-password", "Password of that file.", "security.ssl.truststore-password"
)
TLS_KEYSTORE_TYPE = _text("security.ssl.internal.keystore-type", "Has no effect: the file itself says.")
TLS_TRUSTSTORE_TYPE = _text("security.ssl.internal.truststore-type", "Has no effect: the file itself says.")
TLS_FINGERPRINT = _text(
    "security.ssl.internal.cert.fingerprint", "SHA-1 of the only certificate that a peer may show."
)


def _of_sessions(name: str) -> Option[int]:
    return _add(f"security.ssl.internal.{name}", Kind.INT, "-1", _UNUSED, f"security.ssl.{name}")


TLS_HANDSHAKE_TIMEOUT = _of_sessions("handshake-timeout")
TLS_SESSION_CACHE = _of_sessions("session-cache-size")
TLS_SESSION_TIMEOUT = _of_sessions("session-timeout")
TLS_CLOSE_NOTIFY = _of_sessions("close-notify-flush-timeout")

TRUST_OPTIONS = OptionGroup()

ALLOWED_CLASSES: Option[str | None] = TRUST_OPTIONS.add(
    "penstock.restore.allowed-classes",
    Kind.STRING,
    None,
    "Names that snapshots may hold beside data types and the program's own classes, separated by commas: "
    "`package.module.Name`, or a pattern such as `package.module.*`. Whoever can change a snapshot can call "
    "what is named here.",
)
OTHERS_MAY_WRITE: Option[bool] = TRUST_OPTIONS.add(
    "penstock.restore.others-may-write",
    Kind.BOOLEAN,
    "false",
    "Whether local directories that other users own or may write to can hold snapshots.",
)
KEY_FILE: Option[str | None] = TRUST_OPTIONS.add(
    "penstock.snapshots.key-file",
    Kind.STRING,
    None,
    "A file of at least 32 bytes that only you can read, on the driver: snapshots are signed with it, and "
    "none is restored that is not.",
)
UNSIGNED_TOO: Option[bool] = TRUST_OPTIONS.add(
    "penstock.snapshots.unsigned-too",
    Kind.BOOLEAN,
    "false",
    "With a key file: whether snapshots without a signature are restored all the same, for the first start "
    "after the key was made.",
)
