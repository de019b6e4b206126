"""Signed manifests: who does not have the key cannot make a snapshot that is restored where one is set.

Pure.  The signature is HMAC-SHA256 of the manifest's canonical bytes, and stands in a field of its own beside
them.  It covers every file of the snapshot, whose checksums the manifest holds, and all it carries inline.
It does not say which snapshot is the newest: who can write to the directory can bring an older one back.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from penstock.core.error_codes import Code
from penstock.core.errors import SnapshotError
from penstock.snapshot.strict_json import Malformed, canonical, parse

FIELD = "signature"
KEY_FILE = "penstock.snapshots.key-file"
KEY_VARIABLE = "PENSTOCK_SNAPSHOT_KEY_FILE"
"""Names the key file for tools, and for jobs that do not set it."""
_LABEL = b"penstock snapshot manifest\0"


@dataclass(frozen=True, slots=True)
class Signing:
    """How a job signs its snapshots, and which it restores."""

    key: bytes | None = None
    """Without one, nothing is signed and signatures are not looked at."""
    unsigned_too: bool = False
    """Whether snapshots without a signature are restored all the same."""

    def __repr__(self) -> str:
        return f"Signing(key {'set' if self.key else 'not set'}, unsigned_too={self.unsigned_too})"

    def signed(self, manifest: bytes) -> bytes:
        """The manifest with its signature."""
        if self.key is None:
            return manifest
        return canonical({**parse(manifest), FIELD: _signature(self.key, manifest)})

    def check(self, raw: bytes, name: str) -> None:
        """Raise if the manifest of that name is to be restored, and is not signed with the key."""
        if self.key is None:
            return
        body, found = split(raw)
        if found is None:
            if self.unsigned_too:
                return
            raise SnapshotError(
                f"{name} is not signed, and penstock.snapshots.key-file is set: anybody may have written it. "
                "If it is older than the key, start the job once with penstock.snapshots.unsigned-too: true; "
                "its next checkpoint is signed",
                code=Code.NOT_SIGNED,
            )
        if not hmac.compare_digest(found, _signature(self.key, body)):
            raise SnapshotError(
                f"{name} is signed with another key, or was changed since: its signature does not fit "
                "penstock.snapshots.key-file. Use the key of the job that took it, or another snapshot",
                code=Code.NOT_SIGNED,
            )


UNSIGNED = Signing()


def split(raw: bytes) -> tuple[bytes, str | None]:
    """A manifest without its signature, and the signature if there is one."""
    try:
        document = parse(raw)
        found = document.pop(FIELD, None)
        body = canonical(document)
    except (Malformed, ValueError, RecursionError):
        return raw, None
    return body, found if isinstance(found, str) else None


def _signature(key: bytes, manifest: bytes) -> str:
    return hmac.new(key, _LABEL + manifest, hashlib.sha256).hexdigest()
