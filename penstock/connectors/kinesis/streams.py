"""What Kinesis says about a stream."""

from __future__ import annotations

from typing import Any

from penstock.connectors.kinesis.client import stream_argument
from penstock.core.errors import ConnectorError


def summary(client: Any, stream: str) -> dict[str, Any]:
    """``DescribeStreamSummary``."""
    found: dict[str, Any] = client.describe_stream_summary(**stream_argument(stream))[
        "StreamDescriptionSummary"
    ]
    return found


def created_ms(client: Any, stream: str) -> int:
    """When a stream was made; an error unless it can be read."""
    about = summary(client, stream)
    if about["StreamStatus"] not in ("ACTIVE", "UPDATING"):
        raise ConnectorError(
            f"the Kinesis stream {stream!r} cannot be used now: it is {about['StreamStatus']}"
        )
    return int(about["StreamCreationTimestamp"].timestamp() * 1000)


def list_shards(client: Any, stream: str) -> list[dict[str, Any]]:
    """All shards that have records left, or may get some."""
    answer = client.list_shards(**stream_argument(stream))
    found = list(answer["Shards"])
    while token := answer.get("NextToken"):
        answer = client.list_shards(NextToken=token)
        found += answer["Shards"]
    return found
