"""A place on the Redis server, and a name there that no other test has."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from penstock.connectors.redis.client import RedisConnection


@pytest.fixture
def place(redis_server: Any) -> RedisConnection:
    return RedisConnection(redis_server.host, redis_server.port)


@pytest.fixture
def client(place: RedisConnection) -> Iterator[redis.Redis]:
    opened = place.open()
    yield opened
    opened.close()


@pytest.fixture
def name() -> str:
    return f"ends-{uuid.uuid4().hex[:8]}"
