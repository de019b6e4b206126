"""What being looked at costs: W1 and W3 with a page open over without, and 200 clients at an exact job.

    python benchmarks/polled.py [W1 W3 crowd] [--events N] [--rounds R] [--clients C] [--seconds S]

A client is another process and asks what the page asks: the job, its checkpoints, of every vertex its metrics
and watermarks.  For W1 and W3 one does so every second; contestants take turns, in one session, the first to
run alternating; ratios are of medians.  The crowd asks as a page does, every three seconds, for as long as
the job runs, which should be a minute or more (``--seconds`` warns of less); each result of the job is looked
for in the files that it wrote.  Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
METRICS = (
    "backPressuredTimeMsPerSecond,busyTimeMsPerSecond,idleTimeMsPerSecond,numRecordsInPerSecond,"
    "numRecordsOutPerSecond,numRecordsIn"
)
"""What the page asks of every vertex."""
READY = "READY"
CROWD_EVERY_S = 3.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["W1", "W3", "crowd"])
    parser.add_argument(
        "--events",
        type=int,
        default=10_000_000,
        help="of W3; W1 has twelve times as many, the crowd's job four",
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="that the crowd should be there")
    parser.add_argument("--home", type=Path, default=Path(".bench"))
    parser.add_argument("--as-clients", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--every", type=float, default=1.0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_clients is not None:
        ask_until_told(args.as_clients, args.every)
        return
    with tempfile.TemporaryDirectory() as home:
        os.environ["PENSTOCK_HOME"] = home  # the clients find no job but those of this run
        measure(args)


def measure(args: argparse.Namespace) -> None:
    from penstock.datastream.job import Program, run_as

    settings = {"penstock.spark.master": "local[2]", "penstock.slots.timeout": "300 s", "rest.port": "0"}
    with run_as(Program(overrides=settings)):
        import workloads

        workloads.warm_up()
        names = [name for name in ("W1", "W3") if name in args.what]
        found: dict[tuple[str, str], list[float]] = {}
        for number in range(args.rounds):
            for name in names:
                kinds = ("unpolled", "polled")
                for kind in kinds if number % 2 == 0 else reversed(kinds):
                    speed, asked = one_run(name, kind == "polled", args)
                    found.setdefault((name, kind), []).append(speed)
                    print(f"round {number + 1} {name} {kind}: {speed:,.0f} events/s{asked}", flush=True)
        for name in names:
            unpolled, polled = (statistics.median(found[name, kind]) for kind in ("unpolled", "polled"))
            said = f"{polled:,.0f} / {unpolled:,.0f} events/s, medians of {args.rounds}"
            print(f"{name} polled / unpolled: {polled / unpolled:.3f} ({said})")
        if "crowd" in args.what:
            crowd(args)


def one_run(name: str, polled: bool, args: argparse.Namespace) -> tuple[float, str]:
    """Events a second, and what the client was told."""
    import workloads
    from data import dataset

    events = 12 * args.events if name == "W1" else args.events
    data = dataset(args.home, events, 1000)
    looking = clients(1, 1.0) if polled else contextlib.nullcontext({})
    with tempfile.TemporaryDirectory() as checkpoints, looking as asked:
        if name == "W1":
            seconds, sink = workloads.windowed(data, "country", Path(checkpoints))
            check(sink.total, events)
        else:
            seconds, sink = workloads.running_count(data, Path(checkpoints))
            check(sink.rows, events)
    return events / seconds, f" ({asked})" if polled else ""


def crowd(args: argparse.Namespace) -> None:
    """The same exact job alone and looked at by many, twice each; what it lost and what it did twice."""
    speeds: dict[str, list[float]] = {"alone": [], "crowd": []}
    wrong = {"lost": 0, "duplicated": 0}
    for number in range(2):
        kinds = ("alone", "crowd")
        for kind in kinds if number == 0 else reversed(kinds):
            waiting = clients(args.clients, CROWD_EVERY_S) if kind == "crowd" else contextlib.nullcontext({})
            with tempfile.TemporaryDirectory() as place, waiting as asked:
                seconds, lost, duplicated = exact(4 * args.events, Path(place), args.home)
            wrong = {"lost": wrong["lost"] + lost, "duplicated": wrong["duplicated"] + duplicated}
            speeds[kind].append(4 * args.events / seconds)
            said = f"{speeds[kind][-1]:,.0f} events/s, {seconds:.0f} s, lost={lost} duplicated={duplicated}"
            print(f"{kind}: {said}", asked or "", flush=True)
            if kind == "crowd" and seconds < args.seconds:
                print(f"the job took {seconds:.0f} s only: more --events for {args.seconds:.0f} s")
    alone, crowded = (statistics.median(speeds[kind]) for kind in ("alone", "crowd"))
    told = " ".join(f"{name}={count}" for name, count in wrong.items())
    print(f"{args.clients} clients: {told}, throughput {crowded / alone:.3f} of that without")


def exact(events: int, place: Path, home: Path) -> tuple[float, int, int]:
    """W3 into Parquet files that appear with each checkpoint: seconds, and what is missing or there twice."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import workloads
    from data import dataset

    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream.connectors.file_system import FileSink, FileSource, ParquetWriterFactory

    env = workloads.environment(place / "checkpoints")
    schema = pa.schema([("user_id", pa.int64()), ("count", pa.int64())])
    source = FileSource.parquet(str(dataset(home, events, 1000)), columns=["user_id", "amount"])
    (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "events")
        .key_by("user_id")
        .process(workloads.RunningCount(), Types.ROW([Types.LONG(), Types.LONG()]))
        .sink_to(FileSink.for_bulk_format(str(place / "out"), ParquetWriterFactory(schema)).build())
    )
    seconds = env.execute("bench-exact").get_net_runtime() / 1000
    seen = np.zeros(2 * events + 2000, dtype=np.uint8)
    rows = 0
    for file in sorted((place / "out").rglob("*")):
        if not file.is_file() or file.name.startswith((".", "_")):
            continue
        table = pq.read_table(file)
        user, count = (table.column(number).to_numpy() for number in (0, 1))
        place_of = count * 1000 + user
        if place_of.size and place_of.max() >= seen.size:
            seen = np.concatenate([seen, np.zeros(int(place_of.max()) + 1 - seen.size, dtype=np.uint8)])
        np.add.at(seen, place_of, 1)
        rows += len(table)
    distinct = int(np.count_nonzero(seen))
    return seconds, events - distinct, rows - distinct


def check(found: int, expected: int) -> None:
    if found != expected:
        raise SystemExit(f"wrong result: {found} instead of {expected}")


# --- the other process ------------------------------------------------------------------------------


@contextlib.contextmanager
def clients(count: int, every_s: float) -> Iterator[dict[str, Any]]:
    """So many clients until the end of the block; how often they were answered is known afterwards."""
    command = [sys.executable, __file__, "--as-clients", str(count), "--every", str(every_s)]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    if started.stdout.readline().strip() != READY:
        raise SystemExit("the clients did not start")
    told: dict[str, Any] = {}
    try:
        yield told
    finally:
        out, _ = started.communicate("\n", timeout=120)
        told |= json.loads(out.splitlines()[-1])


def ask_until_told(count: int, every_s: float) -> None:
    """The clients: each looks at whatever job runs, until a line comes in."""
    from penstock.coordinator.registry import entries

    over = threading.Event()
    answered = [0] * count
    failed: Counter[str] = Counter()
    current: list[Any] = []

    def look(number: int) -> None:
        over.wait(every_s * number / count)
        while not over.is_set():
            for entry in list(current):
                try:
                    answered[number] += ask_as_the_page(entry)
                except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                    # A job that has ended has left the list, or does so in a moment.
                    over.wait(1.0)
                    when = "while it ran" if entry.id in [each.id for each in entries()] else "when it ended"
                    failed[f"{type(error).__name__} {when}"] += 1
            over.wait(every_s)

    def find() -> None:
        while not over.is_set():
            current[:] = [entry for entry in entries() if entry.rest]
            over.wait(0.5)

    threads = [threading.Thread(target=look, args=(number,), daemon=True) for number in range(count)]
    for thread in [threading.Thread(target=find, daemon=True), *threads]:
        thread.start()
    print(READY, flush=True)
    begun = time.monotonic()
    sys.stdin.readline()
    over.set()
    took = round(time.monotonic() - begun, 1)
    told = {"answers": sum(answered), "looks that failed": dict(failed), "seconds": took}
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps(told | {"processor seconds of the clients": round(used.ru_utime + used.ru_stime, 1)}))


def ask_as_the_page(entry: Any) -> int:
    """One look of the page; how many calls were answered."""
    place = urlsplit(entry.rest)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    headers = {"Authorization": f"Bearer {entry.rest_token}"}

    def get(path: str) -> Any:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise ValueError(f"{path}: {answer.status}")
        return json.loads(body)

    try:
        vertices = get(f"/jobs/{entry.id}")["vertices"]
        get(f"/jobs/{entry.id}/checkpoints")
        for vertex in vertices:
            base = f"/jobs/{entry.id}/vertices/{vertex['id']}"
            get(f"{base}/subtasks/metrics?get={METRICS}")
            get(f"{base}/watermarks")
        return 2 + 2 * len(vertices)
    finally:
        connection.close()


if __name__ == "__main__":
    main()
