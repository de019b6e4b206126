"""What a client may send that nobody means well: it is refused, or answered, and costs little."""

from __future__ import annotations

import json
import struct
from types import SimpleNamespace
from typing import Any

import pytest
from rest_rig import Told

from penstock.coordinator import private
from penstock.core.clock import ManualClock
from penstock.core.messages import Heartbeat
from penstock.core.metrics import MetricGroup
from penstock.rest import metric_views, prometheus
from penstock.rest.guard import Guard, Sessions
from penstock.rest.json_answer import JsonAnswer
from penstock.rest.look import Look, Refused, rest_id
from penstock.rest.routes import VIEWS, Asked


def running() -> Look:
    told = Told(interval_ms=1000)
    told.run()
    return told.look()


@pytest.mark.parametrize("ranges", ["0-99999999999999999999", f"1-{'9' * 4000}", "-5", "1-0,0,1-2", "7"])
def test_a_range_of_subtasks_costs_what_there_is_and_not_what_is_written(ranges: str) -> None:
    vertex = running().plan.vertices[0]
    try:
        found = [int(one.index) for one in metric_views.chosen_subtasks(vertex, ranges)]
    except Refused as error:
        assert error.status == 400
    else:
        assert set(found) <= set(range(vertex.parallelism)) and (ranges == "7") == (not found)


def test_numbers_too_long_for_python_are_no_numbers() -> None:
    endless = "9" * 5000
    with pytest.raises(Refused, match="whole number") as refused:
        Asked({}, {"most": endless}).number("most", 1)
    assert refused.value.status == 400 and len(str(refused.value)) < 200
    look = running()
    with pytest.raises(Refused, match="no subtask") as refused:
        look.subtask(rest_id(look.plan.vertices[0]), endless)
    assert refused.value.status == 404 and len(str(refused.value)) < 200


@pytest.mark.parametrize(
    "others",
    ['a[b]={"x": 1}; {}', "{}; a[b]=x", 'x="unfinished; {}', "{}; penstock=other", "penstock=other; {}"],
)
def test_cookies_of_other_programs_on_this_host_lock_nobody_out(others: str) -> None:
    sessions = Sessions(ManualClock())
    session = sessions.redeem(sessions.new_code())
    headers = {"host": "127.0.0.1", "cookie": others.replace("{}", f"penstock={session}")}
    Guard("t" * 32, sessions).check("GET", "/jobs", headers)
    with pytest.raises(Refused):
        Guard("t" * 32, sessions).check("GET", "/jobs", {**headers, "cookie": "penstock=; penstock"})


def test_a_user_with_a_high_number_reaches_his_own_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    high = 2**32 - 10
    monkeypatch.setattr(private.os, "getuid", lambda: high)
    said = struct.pack("=iII", 7, high, high)
    connection: Any = SimpleNamespace(family=private.socket.AF_UNIX, getsockopt=lambda *_: said)
    assert private.is_own(connection)


def test_names_that_are_no_valid_unicode_end_no_scrape_and_no_answer() -> None:
    name = "file-\udcff.csv"
    told = Told(interval_ms=1000)
    told.run()
    look = told.look()
    subtask = look.plan.vertices[0].subtasks()[0]
    step = look.plan.vertices[0].operators[0].node.name
    group = MetricGroup().add_group(step).add_group("file", name)
    group.counter(name).inc(3)
    told.said(Heartbeat({subtask: group.marked()}), 0)
    text = prometheus.exposed(told.look()).decode()
    assert 'file="file-?.csv"' in text
    assert json.loads(JsonAnswer({"split": name, "a": "ä"}).body) == {"split": name, "a": "ä"}
    view = VIEWS["/jobs/{jobid}/vertices/{vertexid}/metrics"]
    assert JsonAnswer(view(told.look(), Asked({"vertexid": rest_id(look.plan.vertices[0])}))).body
