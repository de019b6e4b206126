"""How the JVM is started: what is on its command line, and what of its talk is shown."""

from __future__ import annotations

import logging
import os
import threading
from types import SimpleNamespace

import pytest

from penstock.spark import jvm


@pytest.fixture
def command_lines(monkeypatch):
    """The settings of each JVM that was started."""
    found = []

    def launch(conf, popen_kwargs):
        found.append(dict(conf.getAll()))
        return SimpleNamespace(proc=None)

    monkeypatch.setattr(jvm, "SparkConf", lambda loadDefaults: _Conf())  # noqa: N803
    monkeypatch.setattr(jvm, "launch_gateway", launch)
    monkeypatch.setattr(jvm.atexit, "register", lambda *what: None)
    return found


class _Conf(dict):
    set = dict.__setitem__

    def getAll(self):
        return list(self.items())


def test_secrets_are_not_on_the_command_line(command_lines):
    jvm.launched({"spark.driver.memory": "1g", "spark.hadoop.fs.s3a.secret.key": "hunter2"})
    assert command_lines == [{"spark.driver.memory": "1g"}]


@pytest.mark.parametrize(
    ("chosen", "then"), [(logging.NOTSET, logging.WARNING), (logging.DEBUG, logging.DEBUG)]
)
def test_py4j_does_not_tell_of_every_connection(chosen, then, monkeypatch):
    monkeypatch.setattr(logging.getLogger("py4j"), "level", chosen)
    jvm.quieten()
    assert logging.getLogger("py4j").level == then


def test_only_noise_is_left_out(capfd):
    with jvm._without_noise() as places:
        os.write(
            places["stderr"],
            b"WARNING: Using incubator modules: jdk.incubator.vector\nJava is \xff not well\nthe end\n",
        )
    shown = ""
    while "the end" not in shown:
        shown += capfd.readouterr().err
        threading.Event().wait(0.02)
    assert "incubator" not in shown and "not well" in shown


def test_without_a_filter_all_is_shown(monkeypatch):
    monkeypatch.setattr(jvm.shutil, "which", lambda name: None)
    with jvm._without_noise() as places:
        assert places == {}
