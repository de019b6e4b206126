"""Webhooks: what a sender is told, what is in the log then, and what a job makes of it."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from database_kit import until

from penstock.common import WatermarkStrategy
from penstock.connectors.http.server import Spool, WebhookServer
from penstock.connectors.log import LogOffsets, Text
from penstock.connectors.log.partition import PartitionWriter
from penstock.connectors.log.topic import Log
from penstock.core.clock import ManualClock
from penstock.core.errors import ConfigError
from penstock.core.keygroups import hash_value
from penstock.datastream import StreamExecutionEnvironment
from penstock.testing.local import local_cluster
from tests.patience import PATIENCE_S

TOKEN = "open-sesame"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebhookServer]:
    with WebhookServer(tmp_path, "orders", TOKEN) as started:
        yield started


def post(
    server: WebhookServer, body: bytes | str, path: str = "/orders", **headers: str | None
) -> tuple[int, dict[str, Any]]:
    usual = {"Authorization": f"Bearer {TOKEN}", "Content_Type": "application/json"}
    said = {name.replace("_", "-"): value for name, value in (usual | headers).items() if value is not None}
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    connection.request("POST", path, body, said)
    answer = connection.getresponse()
    result = answer.status, json.loads(answer.read())
    connection.close()
    return result


def stored(root: Path) -> list[bytes]:
    topic = Log(root).topic("orders")
    found = []
    for partition in range(topic.partitions):
        reader = topic.reader(partition)
        found += reader.read(reader.start_offset(), 1_000_000).column(3).to_pylist()
        reader.close()
    return found


def test_values_arrays_and_lines(server: WebhookServer, tmp_path: Path) -> None:
    assert post(server, '{"a": 1}') == (200, {"accepted": 1, "repeated": False})
    assert post(server, "[1, [2], null]")[1]["accepted"] == 3
    assert post(server, '{"b":1}\n\n{"b":2}\n', Content_Type="application/x-ndjson")[1]["accepted"] == 2
    assert post(server, "one\ntwo\n", Content_Type="text/plain; charset=utf-8")[1]["accepted"] == 2
    assert post(server, "[]") == (200, {"accepted": 0, "repeated": False})
    assert stored(tmp_path) == [b'{"a":1}', b"1", b"[2]", b"null", b'{"b":1}', b'{"b":2}', b"one", b"two"]
    assert post(server, '"\\ud83d\\ude00"')[0] == 200, "two halves are a character"


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (400, "{", {}),
        (400, "NaN", {}),
        (400, "[1e999]", {}),
        (400, '["\\ud800"]', {}),
        (400, '{"\\udc00\\ud800": 1}', {"Content_Type": "application/x-ndjson"}),
        (400, "[" * 100_000, {}),
        (400, b"\xff", {"Content_Type": "text/plain"}),
        (400, '{"a":1}\n{', {"Content_Type": "application/x-ndjson"}),
        (400, "1", {"Idempotency_Key": "k" * 257}),
        (401, "1", {"Authorization": None}),
        (401, "1", {"Authorization": "Bearer guess"}),
        (401, "1", {"Authorization": f"Basic {TOKEN}"}),
        (404, "1", {"path": "/others"}),
        (411, "1", {"Content_Length": "many"}),
        (411, "1", {"Content_Length": "\u00b2"}),
        (411, "1", {"Transfer_Encoding": "chunked", "Content_Length": "1"}),
        (413, "1", {"Content_Length": "9" * 5000}),
        (413, "1" * ((1 << 20) + 1), {}),
        (415, "1", {"Content_Type": "image/png"}),
    ],
)
def test_bad_requests_store_nothing(
    status: int, body: Any, headers: dict[str, Any], server: WebhookServer, tmp_path: Path
) -> None:
    path = headers.pop("path", "/orders")
    found, said = post(server, body, path, **headers)
    assert found == status and said["error"]
    assert stored(tmp_path) == []
    assert post(server, "1")[0] == 200, "the server goes on"


@pytest.mark.parametrize(
    ("status", "line", "headers"),
    [
        (400, "POST /orders", {"Idempotency-Key": "k" * 257}),
        (401, "POST /orders", {"Authorization": "Bearer guess"}),
        (404, "POST /others", {}),
        (411, "POST /orders", {"Transfer-Encoding": "chunked"}),
        (413, "POST /orders", {}),
        (414, "POST /" + "o" * 70_000, {}),
        (431, "POST /orders", {"Cookie": "c" * 70_000}),
        (431, "POST /orders", {f"X-{number}": "c" * 60_000 for number in range(90)}),
        (501, "PUT /orders", {}),
    ],
)
def test_a_refusal_does_not_break_the_connection(
    status: int, line: str, headers: dict[str, str], server: WebhookServer
) -> None:
    """The body is under way when the answer comes: who sends it must get to the end, and to the answer."""
    refused(server, status, line, headers)


def test_too_many_at_once_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.http.server._AT_ONCE", 0)
    with WebhookServer(tmp_path, "orders", TOKEN, max_body_bytes=1 << 25) as server:
        refused(server, 503, "POST /orders", {})


def refused(server: WebhookServer, status: int, line: str, headers: dict[str, str]) -> None:
    address, body = urlsplit(server.url), b"1" * (16 << 20)
    said = {"Authorization": f"Bearer {TOKEN}", "Content-Length": str(len(body)), **headers}
    lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items()), "", ""]
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as raw:  # type: ignore[arg-type]
        raw.sendall("\r\n".join(lines).encode())
        answer = raw.recv(1)
        raw.sendall(body)
        raw.shutdown(socket.SHUT_WR)
        while piece := raw.recv(1000):
            answer += piece
    assert f" {status} ".encode() in answer.splitlines()[0]


def test_a_sender_that_never_ends_is_left(tmp_path: Path) -> None:
    clock = ManualClock()
    with WebhookServer(tmp_path, "orders", TOKEN, clock=clock) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S) as raw:  # type: ignore[arg-type]
            raw.sendall(b"POST /orders HTTP/1.1\r\nContent-Length: 1\r\n\r\n")
            assert b" 401 " in raw.recv(1000)
            clock.advance(10_000)
            with pytest.raises(ConnectionError):
                while True:
                    raw.sendall(b"x" * 1000)


def test_numbers_are_stored_with_all_their_digits(server: WebhookServer, tmp_path: Path) -> None:
    body = (
        '[{"amount": 12345678901234567.89, "rate": [1.10, -2.5E-3]}, 0.1234567890123456789, 9007199254740993]'
    )
    assert post(server, body)[0] == 200
    assert stored(tmp_path) == [
        b'{"amount":12345678901234567.89,"rate":[1.10,-2.5E-3]}',
        b"0.1234567890123456789",
        b"9007199254740993",
    ]


def test_other_methods(server: WebhookServer) -> None:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    connection.request("GET", "/orders")
    assert connection.getresponse().status == 501
    connection.close()


def test_a_body_that_ends_early_is_not_taken(server: WebhookServer, tmp_path: Path) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as raw:  # type: ignore[arg-type]
        head = f"POST /orders HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: text/plain\r\n"
        raw.sendall(f"{head}Content-Length: 100\r\n\r\nhalf".encode())
        raw.shutdown(socket.SHUT_WR)
        assert b" 400 " in raw.recv(1000)
    assert stored(tmp_path) == []


def test_a_body_that_trickles_is_given_up(tmp_path: Path) -> None:
    """It holds one of the few places for requests, and each byte would be in time by itself."""
    clock = ManualClock()
    with WebhookServer(tmp_path, "orders", TOKEN, clock=clock) as server:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port)) as raw:  # type: ignore[arg-type]
            head = f"POST /orders HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: text/plain\r\n"
            raw.sendall(f"{head}Content-Length: 100\r\n\r\n".encode())
            raw.settimeout(0.05)
            answer = b""
            while not answer:
                clock.advance(10_000)
                raw.sendall(b"x")
                with suppress(TimeoutError):
                    answer = raw.recv(1000)
        assert b" 408 " in answer
        assert post(server, "1")[0] == 200
    assert stored(tmp_path) == [b"1"]


def test_connections_beyond_a_number_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all that are there are being served."""
    storing, go_on = threading.Event(), threading.Event()

    def slowly(spool: Spool, records: list[bytes], key: bytes | None) -> bool:
        storing.set()
        assert go_on.wait(PATIENCE_S)
        return append(spool, records, key)

    append = Spool.append
    monkeypatch.setattr("penstock.connectors.http.server._CONNECTIONS", 1)
    monkeypatch.setattr(Spool, "append", slowly)
    with WebhookServer(tmp_path, "orders", TOKEN) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(post, server, "1")
        assert storing.wait(PATIENCE_S)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            post(server, "2")
        go_on.set()
        assert first.result(PATIENCE_S)[0] == 200
        until(lambda: is_taken(server, "3"), "the first connection is closed")
    assert stored(tmp_path) == [b"1", b"3"]


def is_taken(server: WebhookServer, body: str) -> bool:
    """Whether there was a place, and it was stored."""
    try:
        return post(server, body)[0] == 200
    except (ConnectionError, http.client.HTTPException):
        return False


def test_a_token_need_not_be_ascii(tmp_path: Path) -> None:
    with WebhookServer(tmp_path, "orders", "schlüssel") as server:
        said = "Bearer schlüssel".encode().decode("latin-1")
        assert post(server, "1", Authorization=said)[0] == 200
        assert post(server, "1", Authorization="Bearer schlussel")[0] == 401


def test_a_key_is_taken_once_also_by_the_next_server(tmp_path: Path) -> None:
    for turn in range(2):
        with WebhookServer(tmp_path, "orders", TOKEN, partitions=3) as server:
            for _ in range(2):
                status, said = post(server, "[1, 2]", Idempotency_Key="order-7")
                assert status == 200 and said["repeated"] == (turn > 0 or _ > 0)
            assert post(server, "[3]", Idempotency_Key=f"order-{turn + 8}")[1]["repeated"] is False
    assert sorted(stored(tmp_path)) == [b"1", b"2", b"3", b"3"]


def test_a_failed_disk_does_not_double(
    server: WebhookServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records are in the file, but nobody can say for how long: the sender is told to try again."""

    def broken(_: PartitionWriter) -> None:
        raise OSError("the disk is tired")

    with monkeypatch.context() as patch:
        patch.setattr(PartitionWriter, "sync", broken)
        for _ in range(2):
            assert post(server, "[1, 2]", Idempotency_Key="k")[0] == 500
    assert post(server, "[1, 2]", Idempotency_Key="k") == (200, {"accepted": 2, "repeated": True})
    assert stored(tmp_path) == [b"1", b"2"]


def test_keys_are_forgotten_some_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.connectors.http.server._REMEMBERED", 2)
    with WebhookServer(tmp_path, "orders", TOKEN) as server:
        assert [post(server, "1", Idempotency_Key=key)[1]["repeated"] for key in "abcca"] == [
            False,
            False,
            False,
            True,
            False,
        ]


def test_keys_of_one_partition_do_not_push_out_those_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.connectors.http.server._REMEMBERED", 2)
    names = [f"k{i}" for i in range(100)]
    few = [[name for name in names if hash_value(name.encode()) % 3 == part][:2] for part in range(3)]
    for repeated in (False, True, True):
        with WebhookServer(tmp_path, "orders", TOKEN, partitions=3) as server:
            for key in chain.from_iterable(few):
                assert post(server, "1", Idempotency_Key=key)[1]["repeated"] is repeated
    assert len(stored(tmp_path)) == 6


def test_many_senders(server: WebhookServer, tmp_path: Path) -> None:
    """Each number is sent twice under its key, all at once: it is there once."""
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: post(server, str(i % 30), Idempotency_Key=f"{i % 30}"), range(60)))
    assert {status for status, _ in answers} <= {200, 503}
    assert sorted(map(int, stored(tmp_path))) == list(range(30))


def test_a_token_is_asked_for_and_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="open_to_all"):
        WebhookServer(tmp_path, "orders")
    with WebhookServer(tmp_path, "orders", open_to_all=True) as everybody:
        assert post(everybody, "1", Authorization=None)[0] == 200
        assert everybody.url.startswith("http://127.0.0.1:")
        with pytest.raises(ConfigError, match="choose another port") as taken:
            WebhookServer(tmp_path, "orders", TOKEN, port=urlsplit(everybody.url).port or 0)
    assert TOKEN not in f"{taken.value} {WebhookServer(tmp_path, 'orders', TOKEN)!r}"


def test_a_job_reads_what_was_posted(server: WebhookServer) -> None:
    post(server, '[{"n": 1}, {"n": 2}]')
    post(server, '{"n": 3}', Idempotency_Key="three")
    post(server, '{"n": 3}', Idempotency_Key="three")
    with local_cluster(slots=2):
        env = StreamExecutionEnvironment.get_execution_environment()
        source = server.source(end=LogOffsets.latest())
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        assert sorted(row["n"] for row in stream.execute_and_collect()) == [1, 2, 3]


def test_lines_as_text(server: WebhookServer) -> None:
    post(server, "a\nb", Content_Type="text/plain")
    with local_cluster(slots=1):
        env = StreamExecutionEnvironment.get_execution_environment()
        source = server.source(Text(), end=LogOffsets.latest())
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")
        assert list(stream.execute_and_collect()) == ["a", "b"]
