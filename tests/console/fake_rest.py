"""A small server with the page and the answers of a job that does not exist.

Run it to look at the page by hand: ``python -m tests.console.fake_rest``.  Tests start it with ``FakeRest()``
and change its fields: what is in ``absent`` is answered 404, ``down`` cuts every connection unanswered,
``lose_answers`` does so for that many requests after they were done.
"""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.console import STATIC
from tests.console import fake_checkpoints, fake_state
from tests.console.fake_job import FakeJob, Vertex, now_ms

Json = Any

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
POLICY = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
LOG = "\n".join(
    f"2026-11-18 05:{at // 60:02d}:{at % 60:02d},120 {level} coordinator: checkpoint {at} is {word}"
    for at in range(90)
    for level, word in [("WARNING", "slow") if at % 17 == 0 else ("INFO", "complete")]
)


class Absent(Exception):
    """Answered with 404."""


class Refused(Exception):
    """Answered with 400 and this sentence."""


class _Server(ThreadingHTTPServer):
    """Serves one ``FakeRest`` after the other: a browser finds the page's files where it kept them."""

    daemon_threads = True
    unused: ClassVar[list[_Server]] = []
    fake: FakeRest | None = None

    @classmethod
    def serving(cls, fake: FakeRest) -> _Server:
        if cls.unused:
            server = cls.unused.pop()
        else:
            server = cls(("127.0.0.1", 0), _Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        server.fake = fake
        return server

    def done(self) -> None:
        self.fake = None
        self.unused.append(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that turned to another page has hung up: that is no error of ours."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class FakeRest:
    """The server, for the length of a ``with``; fields may be changed while it runs."""

    def __init__(self, *jobs: FakeJob) -> None:
        self.jobs = {job.jid: job for job in jobs or (FakeJob(),)}
        self.absent: set[str] = set()
        self.down = False
        self.lose_answers = 0
        self.refuse: str | None = None
        self.fail_requests: str | None = None
        self.asked: list[tuple[str, str, Json]] = []
        self.triggers: dict[str, int] = {}
        self.why: Json = None
        self.holders: Json = None
        self.events: Json = None
        self.refresh_ms = 150
        self.features = {"web-submit": False, "web-cancel": True, "web-rescale": True, "web-history": False}
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None, "within a `with`"
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def job(self) -> FakeJob:
        return next(iter(self.jobs.values()))

    def __enter__(self) -> FakeRest:
        self._server = _Server.serving(self)
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.done()

    def answer(self, method: str, path: str, query: dict[str, str], body: Json) -> tuple[int, Json | str]:
        """Status and body; text is sent as plain text."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[-1] in self.absent or "/".join(parts) in self.absent:
            raise Absent(f"There is no {parts[-1]} here.")
        if method != "GET":
            self.asked.append((method, path, body))
            if self.refuse:
                raise Refused(self.refuse)
        if parts[0] == "jobs" and len(parts) > 1 and parts[1] != "overview":
            if (job := self.jobs.get(parts[1])) is None:
                raise Absent(f"Job {parts[1]} is not known here.")
            return self._of_job(method, job, parts[2:], query, body)
        return 200, self._of_cluster(parts, query)

    def _of_cluster(self, parts: list[str], query: dict[str, str]) -> Json | str:
        match parts:
            case ["config"]:
                return {
                    "refresh-interval": self.refresh_ms,
                    "flink-version": "2.3.0",
                    "features": self.features,
                }
            case ["overview"]:
                running = sum(job.running for job in self.jobs.values())
                return {"taskmanagers": 2, "slots-total": 4, "jobs-running": running, "jobs-finished": 0,
                        "jobs-cancelled": 0, "jobs-failed": 0}  # fmt: skip
            case ["jobs", "overview"]:
                return {"jobs": [job.overview() for job in self.jobs.values()]}
            case ["taskmanagers"]:
                return {"taskmanagers": [_executor(f"executor-{at}") for at in range(2)]}
            case ["taskmanagers", name]:
                return _executor(name)
            case ["jobmanager", *what] | ["taskmanagers", _, *what]:
                return _of_process(what, query)
        raise Absent(f"There is no {'/'.join(parts)}.")

    def _of_job(
        self, method: str, job: FakeJob, parts: list[str], query: dict[str, str], body: Json
    ) -> tuple[int, Json]:
        match method, parts:
            case "PATCH", []:
                job.state = "CANCELED"
                return 202, {}
            case "PATCH", ["rescaling"]:
                for vertex in job.vertices:
                    vertex.parallelism = int(query["parallelism"])
                self.triggers[body["triggerId"]] = 0
                return 200, {"request-id": body["triggerId"]}
            case "POST", ["savepoints" | "checkpoints" | "stop" as what]:
                self.triggers[body["triggerId"]] = 0
                if what == "stop":
                    job.state = "FINISHED"
                return 202, {"request-id": body["triggerId"]}
            case "GET", [what, trigger] if trigger in self.triggers:
                return 200, self._outcome(what, trigger)
        return 200, self._told(job, parts, query)

    def _outcome(self, what: str, trigger: str) -> Json:
        """Under way at the first question, over at the second."""
        self.triggers[trigger] += 1
        if self.triggers[trigger] < 2:
            return {"status": {"id": "IN_PROGRESS"}, "operation": None}
        if self.fail_requests:
            cause = {"class": "CheckpointError", "stack-trace": self.fail_requests}
            return {"status": {"id": "COMPLETED"}, "operation": {"failure-cause": cause}}
        if what == "checkpoints":
            return {"status": {"id": "COMPLETED"}, "operation": {"checkpointId": 41}}
        return {
            "status": {"id": "COMPLETED"},
            "operation": {"location": "file:/data/savepoints/savepoint-5b1e0c-7"},
        }

    def _told(self, job: FakeJob, parts: list[str], query: dict[str, str]) -> Json:
        match parts:
            case []:
                return job.job()
            case ["checkpoints"]:
                return fake_checkpoints.checkpoints(job)
            case ["checkpoints", "config"]:
                return fake_checkpoints.CONFIG
            case ["checkpoints", "details", number]:
                return fake_checkpoints.checkpoint(job, int(number))
            case ["checkpoints", "details", number, "subtasks", vertex]:
                return fake_checkpoints.of_vertex(job, int(number), _found(job, vertex))
            case ["exceptions"]:
                return job.exceptions()
            case ["config"]:
                settings = {
                    "job-parallelism": 4,
                    "restart-strategy": "exponential delay",
                    "object-reuse-mode": False,
                }
                return {
                    "jid": job.jid,
                    "name": job.name,
                    "execution-config": {**settings, "user-config": {"region": "eu"}},
                }
            case ["metrics"]:
                return [{"id": "numRestarts", "value": str(len(job.failures))}]
            case ["penstock", "why"] if self.why is not None:
                return self.why
            case ["penstock", "state"]:
                return fake_state.states()
            case ["penstock", "state", operator, state]:
                return fake_state.looked_up(operator, state, query.get("key", ""))
            case ["watermark-holders"] if self.holders is not None:
                return self.holders
            case ["penstock", "events"] if self.events is not None:
                return self.events
            case ["vertices", vertex, *what]:
                return _of_vertex(job, _found(job, vertex), what, query)
        raise Absent(f"There is no {'/'.join(parts)}.")


class _Handler(BaseHTTPRequestHandler):
    """A connection. It is of the fake that was served when it was made, and ends with it."""

    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: the second would wait for the answer to the first

    def setup(self) -> None:
        self._fake = self.server.fake
        super().setup()

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def do_PUT(self) -> None:
        self._serve("PUT")

    def do_PATCH(self) -> None:
        self._serve("PATCH")

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = self.rfile.read(length)
        address = urlsplit(self.path)
        fake = self._fake
        if fake is None or fake is not self.server.fake or fake.down:
            self.close_connection = True
            return
        file = STATIC / (address.path.lstrip("/") or "index.html")
        if method == "GET" and file.is_file() and STATIC in file.resolve().parents:
            self._send(200, TYPES[file.suffix], file.read_bytes(), kept=True)
            return
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        try:
            status, body = fake.answer(method, address.path, query, json.loads(sent) if sent else None)
        except Absent as error:
            status, body = 404, {"errors": [str(error)]}
        except Refused as error:
            status, body = 400, {"errors": [str(error)]}
        if method != "GET" and fake.lose_answers:
            fake.lose_answers -= 1
            self.close_connection = True
            return
        if isinstance(body, str):
            self._send(status, "text/plain", body.encode())
        else:
            self._send(status, "application/json", json.dumps(body).encode())

    def _send(self, status: int, kind: str, body: bytes, *, kept: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        if kept:
            self.send_header("Cache-Control", "max-age=86400")
        self.end_headers()
        self.wfile.write(body)


def _found(job: FakeJob, vertex_id: str) -> Vertex:
    if (vertex := job.found(vertex_id)) is None:
        raise Absent(f"Vertex {vertex_id} is not known here.")
    return vertex


def _of_vertex(job: FakeJob, vertex: Vertex, what: list[str], query: dict[str, str]) -> Json:
    match what:
        case []:
            return job.subtasks(vertex)
        case ["watermarks"]:
            return job.watermarks(vertex)
        case ["backpressure"]:
            return job.load(vertex)
        case ["subtasktimes"]:
            return job.subtask_times(vertex)
        case ["penstock", "tail"]:
            return fake_state.tail()
        case ["accumulators"]:
            return {"id": vertex.id, "user-accumulators": [{"name": "bad rows", "type": "int", "value": "3"}]}
        case ["flamegraph"]:
            leaves = [
                {"name": "json.loads", "value": 120, "children": []},
                {"name": "parse_amount", "value": 60, "children": []},
            ]
            step = {"name": "process_element (clicks.py:41)", "value": 190, "children": leaves}
            return {"endTimestamp": now_ms(), "data": {"name": "root", "value": 200, "children": [step]}}
        case ["subtasks", "metrics"]:
            found = job.metrics(vertex)
            if "get" not in query:
                return [{"id": name} for name in found]
            return [_aggregate(name, found[name]) for name in query["get"].split(",") if name in found]
        case ["metrics"]:
            flat = {
                f"{at}.{name}": value
                for name, values in job.metrics(vertex).items()
                for at, value in enumerate(values)
            }
            if "get" not in query:
                return [{"id": name} for name in flat]
            return [
                {"id": name, "value": str(flat[name])} for name in query["get"].split(",") if name in flat
            ]
    raise Absent(f"There is no {'/'.join(what)} of a vertex.")


def _aggregate(name: str, values: list[float]) -> Json:
    mean = sum(values) / len(values)
    skew = 0.0 if not mean else 100 * (max(values) - mean) / mean
    return {"id": name, "min": min(values), "max": max(values), "avg": mean, "sum": sum(values), "skew": skew}


def _executor(name: str) -> Json:
    hardware = {
        "cpuCores": 8,
        "physicalMemory": 33_554_432_000,
        "freeMemory": 9_000_000_000,
        "managedMemory": 0,
    }
    return {
        "id": name,
        "path": f"{name}.cluster:35001",
        "dataPort": 35001,
        "timeSinceLastHeartbeat": 900,
        "slotsNumber": 2,
        "freeSlots": 0,
        "assignedTasks": 8,
        "hardware": hardware,
        "metrics": {"heapUsed": 412_000_000},
    }


def _of_process(what: list[str], query: dict[str, str]) -> Json | str:
    numbers = {
        "Status.JVM.CPU.Load": "0.42",
        "Status.JVM.Memory.Heap.Used": "412000000",
        "Status.JVM.Threads.Count": "14",
    }
    match what:
        case ["config"]:
            return [{"key": f"pipeline.setting-{at:02d}", "value": f"value {at}"} for at in range(24)]
        case ["log"] | ["logs", _]:
            return LOG
        case ["logs"]:
            return {"logs": [{"name": "driver.log", "size": len(LOG), "mtime": now_ms()}]}
        case ["stdout"]:
            return "hello from the program\n"
        case ["thread-dump"]:
            text = 'Thread "loop":\n  File "task/task.py", line 212 in step'
            return {
                "threadInfos": [
                    {"threadName": name, "stringifiedThreadInfo": text} for name in ("loop", "uploads")
                ]
            }
        case ["metrics"]:
            names = query["get"].split(",") if "get" in query else list(numbers)
            return [{"id": name} | ({"value": numbers[name]} if "get" in query else {}) for name in names]
    raise Absent(f"There is no {'/'.join(what)} of a process.")


if __name__ == "__main__":
    with FakeRest(
        FakeJob(), FakeJob(jid="0" * 31 + "1", name="yesterday's backfill", state="FINISHED")
    ) as rest:
        rest.job.fail()
        rest.refresh_ms = 2000
        print(rest.url, flush=True)
        threading.Event().wait()
