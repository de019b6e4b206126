"""The settings of librdkafka in the terms of ``kafka-python``, which speaks for us to coordinators.

Both clients log in with the same rights, so a program says everything once.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.connectors.kafka.client import BOOTSTRAP
from penstock.core.errors import ConfigError

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")


def wire_settings(settings: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
    """Keyword arguments for a connection of ``kafka-python``."""
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).upper()
    found: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in str(settings[BOOTSTRAP]).split(",")],
        "client_id": str(settings.get("client.id", "penstock")),
        "security_protocol": protocol,
        "request_timeout_ms": timeout_ms,
        "reconnect_backoff_max_ms": 1_000,
    }
    if "SSL" in protocol:
        found["ssl_context"] = _tls(settings)
    if protocol.startswith("SASL"):
        found.update(_login(settings))
    return found


def _login(settings: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = str(settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "GSSAPI"))).upper()
    if mechanism not in _MECHANISMS:
        raise ConfigError(
            f"a Kafka sink that writes EXACTLY_ONCE can log in with {', '.join(_MECHANISMS)}, not with "
            f"{mechanism}; choose one of these, or AT_LEAST_ONCE"
        )
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": settings.get("sasl.username"),
        "sasl_plain_password": settings.get("sasl.password"),
        "sasl_kerberos_service_name": settings.get("sasl.kerberos.service.name", "kafka"),
    }


def _tls(settings: Mapping[str, Any]) -> ssl.SSLContext:
    if "ssl.keystore.location" in settings:
        raise ConfigError(
            "a Kafka sink that writes EXACTLY_ONCE reads its certificate from PEM files: give "
            "ssl.certificate.location and ssl.key.location instead of ssl.keystore.location"
        )
    context = ssl.create_default_context(
        cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem")
    )
    if str(settings.get("ssl.endpoint.identification.algorithm", "https")).lower() == "none":
        context.check_hostname = False
    if str(settings.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_certificate(context, settings)
    return context


def _load_certificate(context: ssl.SSLContext, settings: Mapping[str, Any]) -> None:
    password = settings.get("ssl.key.password")
    if "ssl.certificate.location" in settings:
        context.load_cert_chain(
            settings["ssl.certificate.location"], settings.get("ssl.key.location"), password
        )
    elif "ssl.certificate.pem" in settings:
        with tempfile.TemporaryDirectory() as place:  # Python reads certificates from files only
            both = Path(place) / "client.pem"
            both.touch(mode=0o600)
            both.write_text(f"{settings['ssl.certificate.pem']}\n{settings.get('ssl.key.pem', '')}\n")
            context.load_cert_chain(both, password=password)
