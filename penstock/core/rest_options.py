"""Settings of the driver's HTTP control plane: where it listens, who may ask, and what for."""

from __future__ import annotations

from penstock.core.option import Kind, Option, OptionGroup
from penstock.core.secret_fields import DEFAULT

REST_OPTIONS = OptionGroup()
_add = REST_OPTIONS.add


REST_ENABLED: Option[bool] = _add(
    "penstock.rest.enabled",
    Kind.BOOLEAN,
    "true",
    "Whether the driver serves the page, Flink's REST and metrics at a port; the command line reaches it "
    "all the same.",
)
REST_PORT: Option[int] = _add(
    "rest.port",
    Kind.INT,
    "8081",
    "Port of the page and of REST; if it is taken, the next one that is free. 0 is any.",
    least=0,
    most=65_535,
)
REST_BIND_ADDRESS: Option[str] = _add(
    "rest.bind-address",
    Kind.STRING,
    "127.0.0.1",
    "Address that the page and REST listen on. Any other than loopback opens them to the network and needs "
    "`security.ssl.rest.enabled`.",
)
REST_PLAIN: Option[bool] = _add(
    "penstock.rest.allow-plain",
    Kind.BOOLEAN,
    "false",
    "Whether the page and REST may be open to the network without TLS, where something in front of them "
    "encrypts: tokens and cookies cross the network as they are.",
)
REST_ADDRESS: Option[str | None] = _add(
    "rest.address",
    Kind.STRING,
    None,
    "Name by which others reach the page and REST, if it is neither the bind address nor this host's name.",
)
REST_READ_ONLY: Option[bool] = _add(
    "penstock.rest.read-only",
    Kind.BOOLEAN,
    "false",
    "Whether the page and REST only show: no savepoint, stop, checkpoint or cancel; the command line still "
    "can.",
)
REST_TAIL: Option[bool] = _add(
    "penstock.rest.tail",
    Kind.BOOLEAN,
    "false",
    "Whether the page may show some of the records that flow, without fields of `penstock.hidden-fields`.",
)
SECRET_FIELDS: Option[str] = _add(
    "penstock.hidden-fields",
    Kind.STRING,
    DEFAULT,
    "Names of fields whose values are never shown to people: where a record made a function fail, and where "
    "the page shows state or records. Patterns with `*` and `?`, with commas between them; case, `-` and `_` "
    "make no difference.",
)
REST_TOKEN_FILE: Option[str | None] = _add(
    "penstock.rest.bearer-file",
    Kind.STRING,
    None,
    "A file that only you can read, on the driver, with the token that requests must show; without it "
    "each job makes its own.",
)
REST_TLS: Option[bool] = _add(
    "security.ssl.rest.enabled", Kind.BOOLEAN, "false", "TLS for the page and REST; needs a key store."
)
REST_KEYSTORE: Option[str | None] = _add(
    "security.ssl.rest.keystore",
    Kind.STRING,
    None,
    "PEM file, on the driver, with the key and the certificate of the page and REST.",
)
REST_KEYSTORE_PASSWORD: Option[str | None] = _add(
    "security.ssl.rest.keystore-password", Kind.STRING, None, "Password of the key in that file."
)
