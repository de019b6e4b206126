"""``penstock backfill``: history from files, then the live topic, as if it had been one stream."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import cli
from penstock.connectors.log import Log, Producer
from penstock.demo.clicks import FIRST_MS, HOUR_MS, PARTITIONS, make_clicks
from penstock.testing.local import local_cluster

EVENTS = 3000
SWITCH = FIRST_MS + 9 * HOUR_MS + 1_234_567
"""In the middle of an hour: its window is open when the switch happens."""

PROGRAM = """
import json, sys
from pathlib import Path
import pyarrow as pa
from penstock.common import Configuration, Duration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.log import Json, LogOffsets, LogSink, LogSource
sys.path.insert(0, EXAMPLES)
from hourly_counts import CLICK, HourlyCounts

log, crashes = sys.argv[1], Path(sys.argv[2])
seen = [0]

def crash_now_and_then(click):
    seen[0] += 1
    if seen[0] % 400 == 0 and len(list(crashes.iterdir())) < 6:
        (crashes / str(len(list(crashes.iterdir())))).touch()
        raise RuntimeError("now and then")
    return click

env = StreamExecutionEnvironment.get_execution_environment()
by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(5))
source = LogSource(log, "clicks", CLICK, end=LogOffsets.latest())
clicks = env.from_source(source, by_time, "clicks").uid("clicks")
by_country = clicks.map(crash_now_and_then).key_by(lambda click: click["country"])
counts = by_country.process(HourlyCounts(10**9)).uid("counts")
counts.sink_to(LogSink(log, "hourly-counts", Json())).uid("out")
env.execute("backfilled")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    examples = Path(__file__).resolve().parents[3] / "examples"
    (tmp_path / "program.py").write_text(PROGRAM.replace("EXAMPLES", repr(str(examples))))
    (tmp_path / "crashes").mkdir()
    log = Log(tmp_path / "log")
    log.create_topic("clicks", partitions=PARTITIONS)
    log.create_topic("hourly-counts", partitions=1)
    clicks = [
        (json.loads(value), time) for value, time in zip(*[part.tolist() for part in _columns()], strict=True)
    ]
    with Producer(log.topic("clicks")) as producer:
        for number, (click, time) in enumerate(clicks):
            if time > SWITCH - HOUR_MS:
                producer.send(json.dumps(click).encode(), partition=number % PARTITIONS, timestamp=time)
        producer.sync()
    early = [(click, time) for click, time in clicks if time < SWITCH + HOUR_MS]
    (tmp_path / "history").mkdir()
    for part in range(3):
        rows = [{**click, "ts": time} for click, time in early[part::3]]
        pq.write_table(
            pa.Table.from_pylist(rows), tmp_path / "history" / f"{part}.parquet", row_group_size=100
        )
    with local_cluster(slots=2):
        yield tmp_path


def _columns():
    clicks = make_clicks(EVENTS, 11)
    return clicks.values.to_numpy(zero_copy_only=False), clicks.times


def truth() -> Counter[tuple[str, int]]:
    values, times = _columns()
    pairs = zip(values.tolist(), times.tolist(), strict=True)
    return Counter((json.loads(value)["country"], time // HOUR_MS * HOUR_MS) for value, time in pairs)


def counted(place: Path) -> Counter[tuple[str, int]]:
    read = Log(place / "log").topic("hourly-counts").reader(0).read(0, 10_000)
    rows = [json.loads(value) for value in read.column(3).to_pylist()]
    assert len({(row["country"], row["hour"]) for row in rows}) == len(rows), "each window fires once"
    return Counter({(row["country"], row["hour"]): row["clicks"] for row in rows})


def call(place: Path, *options: object, crashes: str = "crashes") -> Result:
    program = [place / "program.py", place / "log", place / crashes]
    history = ["--history", place / "history", "--switch-at", SWITCH, "--time-column", "ts"]
    return CliRunner().invoke(cli, [str(part) for part in ("backfill", *program, *history, *options)])


FAST = [
    "-D", "execution.checkpointing.interval=20 ms",
    "-D", "restart-strategy.type=fixed-delay",
    "-D", "restart-strategy.fixed-delay.attempts=50",
    "-D", "restart-strategy.fixed-delay.delay=5 ms",
    "-D", "penstock.batch.max-rows=50",
]  # fmt: skip


def test_counts_are_those_of_one_uninterrupted_stream(place: Path) -> None:
    """Both ends overlap by an hour on either side of the switch; the program crashes all along.

    How often is a matter of scheduling, but not without bound: an attempt ends when one of the two subtasks
    has seen 400 clicks, so it sees fewer than 800, and all of them must be seen in some attempt.
    """
    result = call(place, *FAST, "-D", f"execution.checkpointing.dir={place / 'checkpoints'}", "-p", 2)
    assert result.exit_code == 0, result.output
    assert counted(place) == truth()
    assert len(list((place / "crashes").iterdir())) >= EVENTS // 800


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--source", "other"], "there is no such source: give one of them as --source: 'clicks'"),
        (["--history", "mysql://me@127.0.0.1/db"], "a history in a database needs --table"),
        (["--switch-at", "noon"], "--switch-at takes a time"),
        (["--columns", "country,nobody"], "the history has no columns nobody"),
        (["--history", "nowhere"], "nowhere"),
    ],
)
def test_bad_options_are_one_sentence(place: Path, options: list[str], sentence: str) -> None:
    result = call(place, *options)
    assert result.exit_code != 0 and sentence in result.stderr
    assert counted(place) == {}
