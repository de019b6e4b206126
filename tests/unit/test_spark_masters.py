"""Obstacles on the way to a session, in one sentence.  No Spark is started."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from penstock.core.config import Configuration
from penstock.core.errors import ClusterError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.job import Program, run_as
from penstock.spark.launcher import SparkLauncher
from penstock.spark.session import check_master, in_one_sentence

STACK = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: org.apache.spark.SparkException: Could not parse Master URL: 'nonsense'
\tat org.apache.spark.SparkContext$.org$apache$spark$SparkContext$$createTaskScheduler(SparkContext.scala)
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def test_a_master_that_nobody_answers_at() -> None:
    master = f"spark://127.0.0.1:{free_port()},127.0.0.1:{free_port()}"
    with pytest.raises(ClusterError) as raised:
        check_master(master)
    told = str(raised.value)
    assert f"no Spark master answers at {master}" in told and "penstock.spark.master" in told
    assert told.count("refused") == 2 and "\n" not in told


@pytest.mark.parametrize("address", ["127.0.0.1:none", "nowhere.invalid:7077", "nowhere.invalid"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ClusterError, match="no Spark master answers"):
        check_master(f"spark://{address}")


def test_one_of_several_masters_is_enough_and_others_are_sparks_own_matter() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}")
        assert there.accept()[0].getpeername()
    check_master("local[2]")
    check_master("yarn")


def test_the_stack_of_the_jvm_is_left_out() -> None:
    with pytest.raises(ClusterError) as raised, in_one_sentence("nonsense"):
        raise RuntimeError(STACK)
    told = str(raised.value)
    assert "master 'nonsense': Could not parse Master URL: 'nonsense'" in told
    assert "\n" not in told and "org.apache" not in told


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"])
def test_spark_connect_is_refused_before_anything_is_asked_of_it(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "sc://localhost:15002")
    with pytest.raises(ClusterError, match="Spark Connect") as raised:
        SparkLauncher(Configuration()).session()
    assert "classic session" in str(raised.value) and "how many slots there are" in str(raised.value)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([1]).print()
    with run_as(Program()), pytest.raises(ClusterError, match="Spark Connect"):
        env.execute("job")
    theirs: Any = object()
    with pytest.raises(ClusterError, match="Spark Connect"):
        env.from_collection([1]).to_dataframe(theirs)
