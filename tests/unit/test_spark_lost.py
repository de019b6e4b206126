"""A Spark that is gone ends the job, with a status that a supervisor can act on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli import main
from penstock.core.clock import SystemClock
from penstock.core.errors import ClusterError, JobFailedError, PenstockError, SparkLostError
from penstock.spark.slots import check_alive, check_slots
from penstock.testing.local import LocalCluster, local_cluster


class Session:
    """As much of a session as is asked here; ``error`` is what everything asked of its JVM raises."""

    def __init__(self, master: str = "spark://head:7077", slots: int = 0, **facts: Any) -> None:
        self.master = master
        self._slots = slots
        self._facts = facts
        self.sparkContext = self._jsc = self

    def sc(self) -> Session:
        if "error" in self._facts:
            raise self._facts["error"]
        return self

    resourceProfileManager = sc
    defaultResourceProfile = sc

    def isStopped(self) -> bool:
        return bool(self._facts.get("stopped"))

    def maxNumConcurrentTasks(self, profile: Any) -> int:
        return self._slots


def test_a_session_without_its_jvm_or_its_context_is_lost() -> None:
    check_alive(Session())  # type: ignore[arg-type]
    with pytest.raises(SparkLostError, match=r"JVM .* is gone .*refused.*start the program again"):
        check_alive(Session(error=ConnectionRefusedError("refused")))  # type: ignore[arg-type]
    with pytest.raises(SparkLostError, match="was stopped"):
        check_alive(Session(stopped=True))  # type: ignore[arg-type]


def test_a_cluster_without_a_single_executor_is_lost_and_one_with_too_few_is_not() -> None:
    def ask(session: Session) -> None:
        check_slots(session, 2, 0.0, SystemClock(), lambda: False)  # type: ignore[arg-type]

    with pytest.raises(SparkLostError, match="has had no executor for 0 s"):
        ask(Session(slots=0))
    with pytest.raises(ClusterError, match="needs 2 slots") as caught:
        ask(Session(slots=1))
    assert not isinstance(caught.value, SparkLostError)
    ask(Session(slots=2))


def test_nobody_waits_for_slots_of_a_session_that_was_stopped() -> None:
    """YARN stops it when the application is killed; it only says then that there are no slots."""
    with pytest.raises(SparkLostError, match="was stopped"):
        check_slots(Session(stopped=True), 2, 3600.0, SystemClock(), lambda: False)  # type: ignore[arg-type]


def test_nobody_waits_for_slots_that_are_not_wanted_any_more() -> None:
    with pytest.raises(ClusterError, match="given up"):
        check_slots(Session(), 2, 3600.0, SystemClock(), lambda: True)  # type: ignore[arg-type]


def test_the_status_says_whether_starting_again_is_all_it_takes() -> None:
    failed = JobFailedError("the job failed")
    assert main.exit_status(failed) == 1
    failed.cause = SparkLostError("gone")
    wrapped = PenstockError("the program failed")
    wrapped.__cause__ = failed
    assert main.exit_status(wrapped) == main.SPARK_LOST == 75


PROGRAM = """
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
settings = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000000",
            "restart-strategy.fixed-delay.delay": "1 ms"}
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
env.from_collection([1]).map(lambda value: value // 0).print()
env.execute("never")
"""


def test_a_job_that_restarts_for_ever_ends_when_its_spark_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the failure is not Spark's own: here a function raises, and meanwhile the JVM dies."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    asked: list[int] = []

    def check(cluster: LocalCluster) -> None:
        asked.append(1)
        if len(asked) > 2:
            raise SparkLostError("the JVM of the Spark session is gone")

    monkeypatch.setattr(LocalCluster, "check", check)
    with local_cluster(slots=1) as launcher:
        result = CliRunner().invoke(main.cli, ["run", str(script)])
    assert result.exit_code == main.SPARK_LOST and "is gone" in result.stderr
    assert launcher.jobs[-1].driver.restarts == 2
