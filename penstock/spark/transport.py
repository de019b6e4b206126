"""What guards the connections of a job on Spark, by its settings and by where its processes are.

Its certificate is made by the driver, anew in each run, unless Flink's ``security.ssl.internal.*`` settings
name key stores; slots get it with their task, in Spark's own way.
"""

from __future__ import annotations

import datetime
import re
import secrets
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pyspark.sql import SparkSession

from penstock.core import security_options as options
from penstock.core.clock import Clock
from penstock.core.config import Configuration
from penstock.core.discreet import log_of
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.core.option import Option
from penstock.exchange.lines import Certificate, Transport, rehearse
from penstock.spark.slots import is_one_machine
from penstock.spark.told import is_on

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


_JAVA = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_PEM = b"-----BEGIN "


def from_stores(configuration: Configuration, clock: Clock) -> Certificate | None:
    """What the settings name, checked; nothing if they name nothing."""
    store, trust = configuration.get(options.TLS_KEYSTORE), configuration.get(options.TLS_TRUSTSTORE)
    fingerprint = configuration.get(options.TLS_FINGERPRINT)
    if store is None:
        lonely = options.TLS_TRUSTSTORE if trust is not None else options.TLS_FINGERPRINT
        if trust is not None or fingerprint is not None:
            raise ConfigError(
                f"{lonely.key} is set without {options.TLS_KEYSTORE.key}: the job's own certificate would "
                "not be accepted; set both, or neither and the job makes and trusts its own",
                code=Code.CERTIFICATE,
            )
        return None
    password = configuration.get(options.TLS_KEYSTORE_PASSWORD)
    key, chain = _read(
        options.TLS_KEYSTORE, store, password, configuration.get(options.TLS_KEY_PASSWORD) or password
    )
    if key is None or not chain:
        missing = "private key" if chain else "certificate"
        raise ConfigError(
            f"{options.TLS_KEYSTORE.key}: there is no {missing} in {store}; it must hold the key and the "
            "certificate of the job's processes",
            code=Code.CERTIFICATE,
        )
    chain = _own_first(store, key, chain)
    _check_dates(store, chain[0], clock)
    if trust is not None:
        secret = configuration.get(options.TLS_TRUSTSTORE_PASSWORD)
        trusted = _read(options.TLS_TRUSTSTORE, trust, secret, secret)[1]
        if not trusted:
            raise ConfigError(
                f"{options.TLS_TRUSTSTORE.key}: there is no certificate in {trust}", code=Code.CERTIFICATE
            )
    else:
        trusted = chain
    found = shown(key, chain, trusted, _fingerprint(fingerprint, chain[0]))
    _rehearse(found, store, trust)
    return found


def _own_first(store: str, key: PrivateKeyTypes, chain: list[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate of the key, then the others, in whatever order they stand in the file."""
    own = [one for one in chain if one.public_key() == key.public_key()]
    if not own:
        raise ConfigError(
            f"{options.TLS_KEYSTORE.key}: none of the certificates in {store} belongs to the private key in "
            "it; put the two that were made together there",
            code=Code.CERTIFICATE,
        )
    return [own[0], *(one for one in chain if one is not own[0])]


def _rehearse(certificate: Certificate, store: str, trust: str | None) -> None:
    """Slots would find out one by one, again and again."""
    try:
        rehearse(certificate)
    except ssl.SSLError as error:
        if isinstance(error, ssl.SSLCertVerificationError):
            why = error.verify_message
        else:
            why = (error.reason or str(error)).lower().replace("_", " ")
        known = store if trust is None else f"{trust} ({options.TLS_TRUSTSTORE.key})"
        raise ConfigError(
            f"{options.TLS_KEYSTORE.key}: processes of the job that show the certificate in {store} would be "
            f"refused by each other, which know peers by {known}: {why}. Have both files hold what belongs "
            "together and is valid, or leave the settings out and the job makes and trusts its own",
            code=Code.CERTIFICATE,
        ) from None


def _read(
    option: Option[str | None], path: str, password: str | None, key_password: str | None
) -> tuple[PrivateKeyTypes | None, list[x509.Certificate]]:
    """The key and the certificates in a file; its own certificate first."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{option.key}: {path} cannot be read on the driver: {error.strerror}", code=Code.CERTIFICATE
        ) from None
    if data.startswith(_JAVA):
        raise ConfigError(
            f"{option.key}: {path} is a Java key store of the old kind; turn it into PKCS#12 with keytool "
            "-importkeystore -srckeystore OLD -destkeystore NEW -deststoretype PKCS12",
            code=Code.CERTIFICATE,
        )
    try:
        if _PEM in data:
            return _read_pem(data, key_password)
        found = pkcs12.load_pkcs12(data, _bytes(password))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{option.key}: {path} cannot be opened ({error}); is it PKCS#12 or PEM, and is the password "
            f"right that {_passwords(option, data)} gives?",
            code=Code.CERTIFICATE,
        ) from None
    own = [found.cert] if found.cert is not None else []
    return found.key, [one.certificate for one in (*own, *found.additional_certs)]


def _passwords(option: Option[str | None], data: bytes) -> str:
    """The settings that can hold what opens a file: the key in a PEM file may have a password of its own."""
    store = f"{option.key}-password"
    return f"{store} or {options.TLS_KEY_PASSWORD.key}" if _PEM in data else store


def _read_pem(data: bytes, password: str | None) -> tuple[PrivateKeyTypes | None, list[x509.Certificate]]:
    if b"-----BEGIN CERTIFICATE" not in data and b"-----BEGIN TRUSTED" not in data:
        return None, []
    is_locked = b"ENCRYPTED" in data
    key = (
        load_pem_private_key(data, _bytes(password) if is_locked else None)
        if b"PRIVATE KEY" in data
        else None
    )
    return key, x509.load_pem_x509_certificates(data)


def _bytes(password: str | None) -> bytes | None:
    return None if password is None else password.encode()


def _check_dates(store: str, certificate: x509.Certificate, clock: Clock) -> None:
    now = datetime.datetime.fromtimestamp(clock.now_ms() / 1000, datetime.UTC)
    if now > certificate.not_valid_after_utc:
        problem = f"has expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
    elif now < certificate.not_valid_before_utc:
        problem = f"is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}"
    else:
        return
    raise ConfigError(
        f"{options.TLS_KEYSTORE.key}: the certificate in {store} {problem}; put a valid one there, or leave "
        "the setting out and the job makes one for itself",
        code=Code.CERTIFICATE,
    )


def _fingerprint(text: str | None, own: x509.Certificate) -> str | None:
    if text is None:
        return None
    plain = text.replace(":", "").replace(" ", "").lower()
    if not re.fullmatch("[0-9a-f]{40}", plain):
        raise ConfigError(
            f"{options.TLS_FINGERPRINT.key}: {text!r} is no SHA-1 fingerprint; keytool -list -v, or openssl "
            "x509 -fingerprint, print it as 20 pairs of digits",
            code=Code.CERTIFICATE,
        )
    found = own.fingerprint(hashes.SHA1()).hex()
    if plain != found:
        raise ConfigError(
            f"{options.TLS_FINGERPRINT.key}: {text!r} is not of the certificate in "
            f"{options.TLS_KEYSTORE.key}, whose fingerprint is {found}: the job's processes would refuse "
            "each other",
            code=Code.CERTIFICATE,
        )
    return plain


_log = log_of(__name__)


def transport_of(spark: SparkSession, configuration: Configuration, job: str, clock: Clock) -> Transport:
    """TLS as set; if nothing is set, wherever a peer can be on another host."""
    wanted = configuration.get(options.TLS_ENABLED)
    apart = not is_one_machine(spark)
    if wanted is False and apart:
        _log.warning(
            "the plan and all records of job %r cross the network in clear: security.ssl.internal.enabled is "
            "false; leave it out and they are enciphered between hosts",
            job,
        )
    ports = [configuration.get(option) for option in (options.CONTROL_PORT, options.DATA_PORT)]
    if wanted is False or not (wanted or apart):
        return Transport(None, False, *ports)
    if apart and not _hands_out_in_secret(spark):
        _log.warning(
            "slots get the certificate of job %r with their tasks, and Spark's own connections are open: set "
            "spark.authenticate and spark.network.crypto.enabled, or only who merely listens is kept out",
            job,
        )
    certificate = from_stores(configuration, clock) or make(job, clock)
    return Transport(certificate, bool(wanted), *ports)


def _hands_out_in_secret(spark: SparkSession) -> bool:
    """Whether nobody on the network can read or write what Spark sends to its executors."""
    enciphered = ("spark.network.crypto.enabled", "spark.authenticate.enableSaslEncryption")
    return is_on(spark, "spark.ssl.rpc.enabled") or (
        is_on(spark, "spark.authenticate") and any(is_on(spark, key) for key in enciphered)
    )
