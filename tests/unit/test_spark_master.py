"""Which Spark master a session is made with: what Spark was told holds."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from penstock.core.config import Configuration
from penstock.graph.nodes import GraphBuilder, Link, NodeKind
from penstock.operators.operator import Operator
from penstock.spark import session
from penstock.spark.given import given_settings, is_submitted
from penstock.spark.session import CORES, asked_slots, session_settings, told_master, with_room

CLUSTER = "spark://head:7077"


def settings_for(given: dict[str, str], **own: str) -> dict[str, str]:
    config = Configuration.from_dict({key.replace("_", "."): value for key, value in own.items()})
    return session_settings(config, given)


def home(tmp_path: Path, text: str) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    [
        f"spark.master {CLUSTER}",
        f"spark.master={CLUSTER}",
        f"  spark.master  =  {CLUSTER}  ",
        f"spark.master\t{CLUSTER}",
        f"# spark.master local[9]\nspark.master: {CLUSTER}\nspark.ui.enabled true",
    ],
)
def test_spark_defaults_holds(tmp_path: Path, line: str) -> None:
    given = given_settings({}, home(tmp_path, line))
    assert given["spark.master"] == CLUSTER
    assert settings_for(given, penstock_spark_master="local[2]")["spark.master"] == CLUSTER


def test_a_directory_of_settings_that_is_named_holds(tmp_path: Path) -> None:
    named = home(tmp_path, f"spark.master {CLUSTER}") / "conf"
    given = given_settings({"SPARK_CONF_DIR": str(named)}, tmp_path / "elsewhere")
    assert given == {"spark.master": CLUSTER}
    assert given_settings({}, tmp_path / "elsewhere") == {}


@pytest.mark.parametrize(
    "arguments",
    [
        f"--master {CLUSTER} pyspark-shell",
        f"--master={CLUSTER} pyspark-shell",
        f"--conf spark.master={CLUSTER} pyspark-shell",
        f"--verbose -c 'spark.master={CLUSTER}' pyspark-shell",
    ],
)
def test_arguments_in_the_environment_hold_before_the_file(tmp_path: Path, arguments: str) -> None:
    place = home(tmp_path, "spark.master local[7]\nspark.app.name theirs")
    given = given_settings({"PYSPARK_SUBMIT_ARGS": arguments, "MASTER": "local[8]"}, place)
    assert given == {"spark.master": CLUSTER, "spark.app.name": "theirs"}


def test_a_file_that_the_arguments_name_is_read_instead(tmp_path: Path) -> None:
    place = home(tmp_path, "spark.master local[7]")
    other = tmp_path / "other.conf"
    other.write_text(f"spark.master {CLUSTER}\nnot.of.spark 1\n")
    arguments = f"--properties-file {other} pyspark-shell"
    assert given_settings({"PYSPARK_SUBMIT_ARGS": arguments}, place) == {"spark.master": CLUSTER}


def test_the_environment_comes_last(tmp_path: Path) -> None:
    assert given_settings({"MASTER": CLUSTER}, tmp_path) == {"spark.master": CLUSTER}
    assert given_settings({"MASTER": CLUSTER}, home(tmp_path, "spark.master local[7]")) == {
        "spark.master": "local[7]"
    }


def test_penstocks_own_setting_is_for_where_none_is_given() -> None:
    assert settings_for({}, penstock_spark_master="local[2]")["spark.master"] == "local[2]"
    assert settings_for({})["spark.master"] == "local[*]"
    assert settings_for({}, spark_master="local[5]")["spark.master"] == "local[5]"


def test_workers_of_a_local_master_are_forked_with_what_they_need() -> None:
    key = "spark.python.daemon.module"
    for master in ("local", "local[2]"):
        assert settings_for({}, spark_master=master)[key] == "penstock.spark.daemon"
    for master in (CLUSTER, "local-cluster[2,1,1024]"):
        assert key not in settings_for({}, spark_master=master)


def test_a_master_that_the_program_gives_spark_holds_as_in_any_program() -> None:
    assert settings_for({"spark.master": CLUSTER}, spark_master="local[5]")["spark.master"] == "local[5]"


def test_what_is_not_used_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings_for({"spark.master": CLUSTER}, penstock_spark_master=CLUSTER)
        settings_for({"spark.master": CLUSTER})
        assert caplog.text == ""
        settings_for({"spark.master": CLUSTER}, penstock_spark_master="local[2]")
    assert f"the Spark master is {CLUSTER}" in caplog.text and "local[2] is not used" in caplog.text


def test_no_other_setting_of_spark_is_overridden_either() -> None:
    theirs = {"spark.app.name": "orders", "spark.ui.enabled": "true", "spark.driver.host": "10.0.0.1"}
    assert not theirs.keys() & settings_for(theirs).keys()
    on_a_cluster = settings_for({"spark.master": CLUSTER})
    assert not {"spark.driver.host", "spark.python.daemon.module"} & on_a_cluster.keys()
    assert settings_for(theirs, spark_ui_enabled="false")["spark.ui.enabled"] == "false"


def test_spark_submit_is_known_by_its_gateway() -> None:
    assert is_submitted({"PYSPARK_GATEWAY_PORT": "4711"}) and not is_submitted({})


def test_a_session_of_our_own_has_room_for_several_jobs() -> None:
    settings = with_room({"spark.master": "local[*]", "spark.app.name": "mine"}, cores=2, asked=4)
    assert settings["spark.master"] == "local[16]" and settings["spark.app.name"] == "mine"
    assert settings["spark.default.parallelism"] == settings[CORES] == "2", "Spark counts by cores as before"
    assert with_room({}, 2, 100)["spark.master"] == "local[200]"
    assert with_room({}, 32, 0)["spark.master"] == "local[64]"
    assert with_room({"spark.default.parallelism": "7"}, 2, 0)["spark.default.parallelism"] == "7"


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ({"spark.master": "local[2]"}, {}),
        ({}, {"spark_master": "local[2]"}),
        ({}, {"penstock_spark_master": "local[2]"}),
    ],
)
def test_a_master_that_somebody_named_is_taken_as_it_is(given: dict[str, str], own: dict[str, str]) -> None:
    config = Configuration.from_dict({key.replace("_", "."): value for key, value in own.items()})
    assert told_master(config, given) == "local[2]"
    assert told_master(Configuration(), {}) is None


def test_what_a_program_asks_for() -> None:
    graph = GraphBuilder()
    source = graph.add(NodeKind.SOURCE, "source", Operator, parallelism=1)
    graph.add(NodeKind.OPERATOR, "wide", Operator, links=(Link(source),), parallelism=6)
    graph.add(NodeKind.SINK, "sink", Operator, links=(Link(source),))
    assert asked_slots(graph.nodes, None) == 6
    assert asked_slots(graph.nodes, 9) == 9
    assert asked_slots([], None) == 0


def test_a_submitted_program_needs_no_home_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container of YARN there is none: PySpark would end the process when it is looked for."""

    class Told:
        def getAll(self) -> list[tuple[str, str]]:
            return [("spark.master", "yarn")]

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setenv("PYSPARK_PYTHON", "python")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setattr(session, "_find_spark_home", lambda: pytest.fail("looked for"))
    monkeypatch.setattr(session.SparkContext, "_ensure_initialized", lambda: None)
    monkeypatch.setattr(session, "SparkConf", Told)
    monkeypatch.setattr(session, "_session", lambda settings: settings)
    assert session.submitted_master() == "yarn"
    started: Any = session.start_session(Configuration())
    assert started["spark.master"] == "yarn" and "SPARK_CONF_DIR" not in os.environ
