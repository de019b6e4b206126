"""``penstock run`` and Ctrl-C, for programs that wait for their jobs in one way or another."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import cli
from penstock.core.job import JobStatus
from penstock.testing.local import LocalLauncher, local_cluster
from tests.patience import PATIENCE_S

PROGRAM = """
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_gen import DataGeneratorSource
settings = {{"execution.checkpointing.interval": "15 ms", "execution.checkpointing.dir": {place!r}}}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
source = DataGeneratorSource(lambda i: i, None, 1000.0)
env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers").print().uid("out")
"""


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(launcher: LocalLauncher, over: threading.Event) -> None:
    while not (launcher.jobs and launcher.jobs[-1].coordinator.checkpoints.completed >= 2):
        assert not over.wait(0.002), "the job ended before it could be interrupted"
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    "wait",
    ["env.execute('orders')", "env.execute_async('orders').get_job_execution_result().result()"],
)
def test_ctrl_c_keeps_the_checkpoints_and_says_so_once(
    wait: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script, place = tmp_path / "program.py", tmp_path / "checkpoints"
    script.write_text(PROGRAM.format(place=str(place)) + wait)
    over = threading.Event()
    with local_cluster(slots=2) as launcher:
        thread = threading.Thread(target=interrupt, args=(launcher, over))
        thread.start()
        result = CliRunner().invoke(cli, ["run", "-p", "1", str(script)])
        over.set()
        thread.join(PATIENCE_S)
    assert result.exit_code == 130, result.output
    assert launcher.jobs[-1].status() is JobStatus.CANCELED
    assert list(place.glob("*/chk-*/_metadata"))
    told = [record.getMessage() for record in caplog.records if "interrupted" in record.getMessage()]
    assert len(told) == 1 and "newest checkpoint is kept" in told[0] and "go on with: " in told[0]
    assert "Interrupted." not in result.output


def test_ctrl_c_before_there_is_a_job_is_just_that(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    result = CliRunner().invoke(cli, ["run", str(script)])
    assert result.exit_code == 130 and "Interrupted." in result.output


ASIDE = """
import time
from penstock.common import Configuration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
settings = {
    "execution.checkpointing.interval": "15 ms",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
numbers = env.from_source(NumberSequenceSource(1, 10**9), WatermarkStrategy.no_watermarks(), "n").uid("n")
numbers.map(lambda number: time.sleep(0.001) or number).print().uid("out")
"""


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "wait",
    ["env.execute('orders')", "env.execute_async('orders').get_job_execution_result().result()"],
)
def test_a_replay_promises_no_checkpoint_that_goes_with_it(
    wait: str,
    given: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its checkpoints are its own: the same command begins anew, and finds none that were left behind."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    killed = tmp_path / "tmp" / "penstock-replay-of-a-killed-one"
    killed.mkdir()
    (killed / "owner").touch()
    script, place, over = tmp_path / "program.py", tmp_path / "checkpoints", threading.Event()
    script.write_text(ASIDE + wait)
    more = ["-D", f"execution.checkpointing.dir={place}"] if given else []
    command = ["replay", str(script), "--from", "earliest", "--output", str(tmp_path / "out"), *more]
    with local_cluster(slots=2) as launcher:
        thread = threading.Thread(target=interrupt, args=(launcher, over))
        thread.start()
        result = CliRunner().invoke(cli, command)
        over.set()
        thread.join(PATIENCE_S)
    assert result.exit_code == 130, result.output
    (told,) = [record.getMessage() for record in caplog.records if "interrupted" in record.getMessage()]
    assert "it ran aside and keeps nothing, so it begins anew; go on with: " in told
    assert not list(place.rglob("*"))
    assert given or not list((tmp_path / "tmp").glob("penstock-replay-*")), "also of one that was killed"
