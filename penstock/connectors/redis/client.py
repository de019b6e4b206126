"""Where a Redis server is and how to log in there; and its errors in words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RedisConnection:
    """A Redis server. It is sent to the slots, but its password is shown nowhere."""

    host: str = "localhost"
    port: int = 6379
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    def __post_init__(self) -> None:
        if "://" in self.host or not 0 < self.port < 65536:
            raise ConfigError(
                "RedisConnection takes host and port one by one, not a URL; the port is a number up to 65535"
            )

    def open(self) -> Any:
        """A client with a connection of its own, tried out."""
        redis = require("redis", "redis")
        client = redis.Redis(
            host=self.host,
            port=self.port,
            db=self.database,
            username=self.username,
            password=self.password,
            ssl=self.tls,
            protocol=2,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            # A command whose answer got lost must not be sent twice: the job goes back to its snapshot.
            retry=require("redis.retry", "redis").Retry(require("redis.backoff", "redis").NoBackoff(), 0),
        )
        with self.errors():
            client.ping()
        return client

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Say which server it was, and not how somebody logs in there."""
        redis = require("redis", "redis")
        try:
            yield
        except redis.exceptions.RedisError as e:
            raise ConnectorError(
                f"Redis at {self.host}:{self.port}: {self._without_password(str(e))}"
            ) from None

    def _without_password(self, text: str) -> str:
        return text.replace(self.password, "***") if self.password else text
