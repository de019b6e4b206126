"""Key stores as Flink's settings name them: opened, checked, or refused in a paragraph with the way out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from penstock.core.clock import ManualClock, SystemClock
from penstock.core.config import Configuration
from penstock.core.errors import ConfigError
from penstock.exchange.auth import Hello, new_secret
from penstock.exchange.lines import Certificate, Lines, Transport
from penstock.spark.transport import from_stores, make
from tests.patience import PATIENCE_S

START = "security.ssl.internal."
CLOCK = SystemClock()
OWN = make("a company's", CLOCK)
OTHER = make("another's", CLOCK)
OLD = make("forgotten", ManualClock(0))
FUTURE = make("early", ManualClock(2**42))


def key_of(certificate: Certificate) -> Any:
    return load_pem_private_key(certificate.key.encode(), certificate.passphrase.encode())


def store(path: Path, certificate: Certificate, password: str = "secret") -> str:
    chain = x509.load_pem_x509_certificates(certificate.chain.encode())
    locked = BestAvailableEncryption(password.encode())
    path.write_bytes(
        pkcs12.serialize_key_and_certificates(b"one", key_of(certificate), chain[0], None, locked)
    )
    return str(path)


def read(clock: Any = CLOCK, **settings: str) -> Certificate | None:
    named = {START + key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    configuration = Configuration.from_dict(named)
    configuration.check()
    return from_stores(configuration, clock)


def works(certificate: Certificate | None) -> bool:
    """Whether two peers with this certificate understand each other."""
    import socket
    import threading

    assert certificate is not None
    lines = Lines(new_secret(), Transport(certificate, always=True))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        got: list[Any] = []
        thread = threading.Thread(target=lambda: got.append(lines.answer(listener.accept()[0], "job", 1)))
        thread.start()
        lines.call(listener.getsockname()[:2], Hello("job", 1, 0, "data"), PATIENCE_S).close()
        thread.join(PATIENCE_S)
    return len(got) == 1


def test_nothing_set_is_nothing() -> None:
    assert read() is None


def test_a_pkcs12_store_is_opened(tmp_path: Path) -> None:
    path = store(tmp_path / "keys.p12", OWN)
    assert works(read(keystore=path, keystore_password="secret", key_password="secret"))
    both = read(
        keystore=path, keystore_password="secret", truststore=path, truststore_password="secret",
        keystore_type="PKCS12", session_timeout="5",
    )  # fmt: skip
    assert works(both)


def test_pem_files_are_opened_locked_or_not(tmp_path: Path) -> None:
    bare = key_of(OWN).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    (tmp_path / "bare.pem").write_text(OWN.chain + bare)
    (tmp_path / "locked.pem").write_text(OWN.key + OWN.chain)
    (tmp_path / "trust.pem").write_text(OLD.chain + OWN.chain)
    assert works(read(keystore=str(tmp_path / "bare.pem")))
    locked = {"keystore": str(tmp_path / "locked.pem"), "key_password": OWN.passphrase}
    assert works(read(**locked, truststore=str(tmp_path / "trust.pem")))


def test_a_fingerprint_is_taken_in_any_spelling(tmp_path: Path) -> None:
    path = store(tmp_path / "keys.p12", OWN)
    own = x509.load_pem_x509_certificate(OWN.chain.encode()).fingerprint(hashes.SHA1())
    found = read(keystore=path, keystore_password="secret", cert__fingerprint=own.hex(":").upper())
    assert found is not None and found.fingerprint == own.hex() and works(found)


def test_the_order_in_a_pem_file_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / "mixed.pem").write_text(OTHER.chain + OWN.chain + OWN.key)
    assert works(read(keystore=str(tmp_path / "mixed.pem"), key_password=OWN.passphrase))


def test_what_cannot_be_used_is_refused_with_the_way_out(tmp_path: Path) -> None:
    good, old = store(tmp_path / "good.p12", OWN), store(tmp_path / "old.p12", OLD)
    early = store(tmp_path / "early.p12", FUTURE)
    (tmp_path / "java.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    (tmp_path / "junk").write_bytes(b"junk")
    (tmp_path / "only.pem").write_text(OWN.chain)
    (tmp_path / "key.pem").write_text(OWN.key)
    (tmp_path / "locked.pem").write_text(OWN.key + OWN.chain)
    (tmp_path / "mismatch.pem").write_text(OTHER.key + OWN.chain)
    (tmp_path / "other.pem").write_text(OTHER.chain)
    cases: list[tuple[dict[str, str], str]] = [
        ({"keystore": str(tmp_path / "none.p12")}, r"keystore: .*none.p12 cannot be read on the driver"),
        ({"keystore": str(tmp_path / "java.jks")}, "keytool -importkeystore"),
        ({"keystore": str(tmp_path / "junk")}, "PKCS#12 or PEM"),
        ({"keystore": good}, "is the password right that security.ssl.internal.keystore-password gives"),
        ({"keystore": good, "keystore_password": "guess"}, "is the password right"),
        ({"keystore": str(tmp_path / "locked.pem")}, "keystore-password or security.ssl.internal.key-pass"),
        ({"keystore": str(tmp_path / "only.pem")}, "there is no private key in"),
        ({"keystore": old, "keystore_password": "secret"}, r"has expired on 1989-\d\d-\d\d; put a valid one"),
        ({"keystore": early, "keystore_password": "secret"}, "is not valid before 2109"),
        ({"truststore": good}, "truststore is set without security.ssl.internal.keystore"),
        ({"cert__fingerprint": "ab"}, "fingerprint is set without"),
        (
            {"keystore": good, "keystore_password": "secret", "cert__fingerprint": "ab:cd"},
            "'ab:cd' is no SHA-1 fingerprint",
        ),
        (
            {"keystore": good, "keystore_password": "secret", "cert__fingerprint": "ab" * 20},
            r"is not of the certificate in .*keystore, whose fingerprint is [0-9a-f]{40}",
        ),
        (
            {"keystore": good, "keystore_password": "secret", "truststore": str(tmp_path / "key.pem")},
            "truststore: there is no certificate in",
        ),
        (
            {"keystore": good, "keystore_password": "secret", "truststore": str(tmp_path / "other.pem")},
            r"refused by each other, which know peers by .*other.pem .*self-signed",
        ),
        (
            {"keystore": str(tmp_path / "mismatch.pem"), "key_password": OTHER.passphrase},
            "none of the certificates in .*mismatch.pem belongs to the private key",
        ),
        (
            {"keystore": str(tmp_path / "key.pem"), "key_password": OWN.passphrase},
            "keystore: there is no certificate in .*key.pem; it must hold the key",
        ),
    ]
    refused = 0
    for settings, why in cases:
        with pytest.raises(ConfigError, match=why) as caught:
            read(**settings)
        assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
        refused += 1
    assert refused == len(cases)
