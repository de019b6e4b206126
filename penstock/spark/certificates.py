"""The certificate that a job makes for itself.

The driver makes it, anew in each run; slots get it with their task, in Spark's own way.
"""

from __future__ import annotations

import datetime
import secrets

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.core.clock import Clock
from penstock.exchange.lines import Certificate

_BEFORE = datetime.timedelta(days=1)
"""Clocks of machines differ."""
_YEARS = datetime.timedelta(days=365 * 20)
"""Longer than a job runs: its certificate ends with it, and nobody else trusts it."""


def make(job: str, clock: Clock) -> Certificate:
    """A certificate that signs itself, and is all that the job's processes trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"penstock job {job}"[:64])])
    now = datetime.datetime.fromtimestamp(clock.now_ms() / 1000, datetime.UTC)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _YEARS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )
    return shown(key, [certificate], [certificate])


def shown(
    key: PrivateKeyTypes,
    chain: list[x509.Certificate],
    trusted: list[x509.Certificate],
    fingerprint: str | None = None,
) -> Certificate:
    """As it travels."""
    passphrase = secrets.token_hex(32)
    sealed = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(passphrase.encode())
    )
    return Certificate(_pem(chain), sealed.decode(), passphrase, _pem(trusted), fingerprint)


def _pem(certificates: list[x509.Certificate]) -> str:
    return "".join(one.public_bytes(Encoding.PEM).decode() for one in certificates)
