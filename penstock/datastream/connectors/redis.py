"""Source and sink for Redis."""

from __future__ import annotations

from penstock.connectors.redis.client import RedisConnection
from penstock.connectors.redis.sink import RedisSink
from penstock.connectors.redis.source import OnTrimmed, RedisStreamSource

__all__ = ["OnTrimmed", "RedisConnection", "RedisSink", "RedisStreamSource"]
