"""Kinesis in memory, with what moto's server leaves out: closed shards, retention, limits, expired iterators.

A client as boto3 makes it, as far as the connectors use it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
from typing import Any

from botocore.exceptions import ClientError

HOUR_MS = 3_600_000
_STREAMS: dict[str, Stream] = {}


def refused(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "because"}}, "Call")


class Stream:
    """One stream; ``now`` is what its clock shows."""

    def __init__(
        self, name: str, shards: int = 1, now: int = 1_700_000_000_000, retention_h: int = 24
    ) -> None:
        self.now, self.created, self.retention_h = now, now, retention_h
        self._numbers = itertools.count(1000 + now % 1000, 7)
        self.shards: dict[str, dict[str, Any]] = {}
        self.trouble: list[str] = []
        """Codes of errors for the next calls of GetRecords."""
        self.generation = 0
        self.failing: list[set[int]] = []
        """For each of the next calls of PutRecords: which of its records fail."""
        self.calls: list[int] = []
        """How many records each call of PutRecords had."""
        for _ in range(shards):
            self.add_shard()
        _STREAMS[name] = self
        self.name = name

    def add_shard(self, *parents: str) -> str:
        name = f"shardId-{len(self.shards):012}"
        self.shards[name] = {"parents": parents, "records": [], "closed": False}
        for parent in parents:
            self.shards[parent]["closed"] = True
        return name

    def put(self, shard: str, *values: str | bytes) -> None:
        for value in values:
            self.now += 1
            number = str(next(self._numbers))
            data = value if isinstance(value, bytes) else value.encode()
            self.shards[shard]["records"].append((number, self.now, data))

    def trim(self) -> None:
        for shard in self.shards.values():
            kept = [r for r in shard["records"] if r[1] >= self.now - self.retention_h * HOUR_MS]
            shard["records"] = kept

    def values(self) -> list[str]:
        return [record[2].decode() for shard in self.shards.values() for record in shard["records"]]


class Access:
    """Stands where ``KinesisAccess`` stands."""

    def open(self) -> Client:
        return Client()


class Client:
    def describe_stream_summary(self, StreamName: str) -> dict[str, Any]:
        stream = self._stream(StreamName)
        about = {"StreamStatus": "ACTIVE", "RetentionPeriodHours": stream.retention_h}
        return {"StreamDescriptionSummary": {**about, "StreamCreationTimestamp": _moment(stream.created)}}

    def list_shards(self, StreamName: str = "", NextToken: str | None = None) -> dict[str, Any]:
        name, start = (
            (StreamName, 0) if NextToken is None else (NextToken.split()[0], int(NextToken.split()[1]))
        )
        every = list(self._stream(name).shards.items())
        page = [self._listed(*item) for item in every[start : start + 2]]
        more = {"NextToken": f"{name} {start + 2}"} if start + 2 < len(every) else {}
        return {"Shards": page, **more}

    def _listed(self, name: str, shard: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"ShardId": name, "SequenceNumberRange": {"StartingSequenceNumber": "0"}}
        for key, parent in zip(("ParentShardId", "AdjacentParentShardId"), shard["parents"], strict=False):
            found[key] = parent
        if shard["closed"]:
            found["SequenceNumberRange"]["EndingSequenceNumber"] = "9"
        return found

    def get_shard_iterator(
        self,
        StreamName: str,
        ShardId: str,
        ShardIteratorType: str,
        Timestamp: Any = None,
        StartingSequenceNumber: Any = None,
    ) -> dict[str, str]:
        stream = self._stream(StreamName)
        if ShardId not in stream.shards:
            raise refused("ResourceNotFoundException")
        after = -1
        if ShardIteratorType == "AT_TIMESTAMP":
            records = stream.shards[ShardId]["records"]
            wanted = Timestamp.timestamp() * 1000
            after = max([int(n) for n, at, _ in records if at < wanted], default=-1)
        elif StartingSequenceNumber is not None:
            if int(StartingSequenceNumber) < 1000 + stream.created % 1000:
                raise refused("InvalidArgumentException")
            after = int(StartingSequenceNumber) - (ShardIteratorType == "AT_SEQUENCE_NUMBER")
        return {"ShardIterator": f"{StreamName} {stream.generation} {ShardId} {after}"}

    def get_records(self, ShardIterator: str, Limit: int) -> dict[str, Any]:
        name, generation, shard_id, after = ShardIterator.split()
        stream = self._stream(name)
        if stream.trouble:
            raise refused(stream.trouble.pop(0))
        if int(generation) != stream.generation:
            raise refused("ExpiredIteratorException")
        shard = stream.shards[shard_id]
        rest = [record for record in shard["records"] if int(record[0]) > int(after)]
        found = [
            {
                "SequenceNumber": n,
                "ApproximateArrivalTimestamp": _moment(at),
                "Data": data,
                "PartitionKey": "k",
            }
            for n, at, data in rest[:Limit]
        ]
        behind = stream.now - rest[Limit][1] + 1 if len(rest) > Limit else 0
        answer: dict[str, Any] = {"Records": found, "MillisBehindLatest": behind}
        if not (shard["closed"] and len(rest) <= Limit):
            last = found[-1]["SequenceNumber"] if found else after
            answer["NextShardIterator"] = f"{name} {stream.generation} {shard_id} {last}"
        return answer

    def put_records(self, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        stream = self._stream(StreamName)
        stream.calls.append(len(Records))
        failing = stream.failing.pop(0) if stream.failing else set()
        answers: list[dict[str, Any]] = []
        for index, record in enumerate(Records):
            if index in failing:
                answers.append(
                    {"ErrorCode": "ProvisionedThroughputExceededException", "ErrorMessage": "slow"}
                )
                continue
            hashed = int(hashlib.md5(record["PartitionKey"].encode()).hexdigest(), 16)
            shards = [name for name, shard in stream.shards.items() if not shard["closed"]]
            stream.put(shards[hashed % len(shards)], record["Data"].decode())
            answers.append({"SequenceNumber": "1", "ShardId": "x"})
        return {"FailedRecordCount": len(failing), "Records": answers}

    def _stream(self, name: str) -> Stream:
        if name not in _STREAMS:
            raise refused("ResourceNotFoundException")
        return _STREAMS[name]


def forget(name: str) -> None:
    del _STREAMS[name]


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)
