"""Metrics of functions: what of them reaches the driver, and what cannot harm a task."""

from __future__ import annotations

import logging
import math

import numpy as np
import pytest

from penstock.core import metric_names
from penstock.core.errors import ConfigError
from penstock.core.metrics import MetricGroup


def test_every_kind_is_read() -> None:
    group = MetricGroup("step.")
    group.counter("c").inc(3)
    group.counter("c").dec()
    group.meter("m", 10).mark_event(5)
    group.add_group("inner").gauge("g", lambda: 1.5)
    for value in (4, 1, 7):
        group.distribution("d").update(value)
    assert group.snapshot() == {
        "step.c": 2,
        "step.m": 5,
        "step.d.count": 3,
        "step.d.sum": 12,
        "step.d.min": 1,
        "step.d.max": 7,
        "step.d.mean": 4,
        "step.inner.g": 1.5,
    }
    assert metric_names.is_meter(next(name for name in group.marked() if ".m" in name))


def test_keys_with_values_are_labels_and_also_parts_of_a_name() -> None:
    group = MetricGroup("step.").add_group("mine").add_group("shop", "a.b").add_group("floor", "2")
    group.counter("sold").inc()
    (name,) = group.marked()
    assert metric_names.plain(name) == "step.mine.shop.a.b.floor.2.sold"
    assert metric_names.labelled(name) == ("step.mine.shop.floor.sold", (("shop", "a.b"), ("floor", "2")))
    assert metric_names.labelled("step.plain") == ("step.plain", ())


def test_names_cannot_forge_marks() -> None:
    group = MetricGroup().add_group("k\x1fx\x1e", "v\x1e\n")
    group.counter("c\x1d" + "x" * 1000)
    (name,) = group.marked()
    bare, labels = metric_names.labelled(name)
    assert labels == (("k_x_", "v__"),) and bare.startswith("k_x_.c_x") and len(bare) < 250
    assert not metric_names.is_meter(name)


def test_a_gauge_that_fails_is_left_out_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    group = MetricGroup("step.")
    group.gauge("raises", lambda: 1 / 0)
    group.gauge("words", lambda: "many")  # type: ignore[arg-type, return-value]
    group.gauge("endless", lambda: math.inf)
    group.gauge("silent", lambda: None)
    group.counter("fine")
    with caplog.at_level(logging.WARNING, "penstock"):
        assert group.snapshot() == group.snapshot() == {"step.fine": 0}
    assert sorted(record.args[0] for record in caplog.records) == [  # type: ignore[index]
        "step.endless",
        "step.raises",
        "step.words",
    ]


def test_numbers_of_all_kinds_become_plain_ones() -> None:
    group = MetricGroup()
    group.counter("numpy").inc(np.int64(2))
    group.counter("huge").inc(10**400)
    group.distribution("not a number").update(math.nan)  # type: ignore[arg-type]
    values = group.snapshot()
    assert values == {"numpy": 2.0, "not a number.count": 1} and type(values["numpy"]) is float


def test_one_name_is_one_kind() -> None:
    group = MetricGroup()
    group.counter("a")
    with pytest.raises(ConfigError, match="'a' is asked for as a meter, and is a counter"):
        group.meter("a")
    group.gauge("g", lambda: 1)
    with pytest.raises(ConfigError, match="is a gauge"):
        group.distribution("g")


def test_a_part_has_the_names_of_its_group_and_goes_as_a_whole() -> None:
    group = MetricGroup("s.")
    group.part("p0").add_group("topic", "t").gauge("lag", lambda: 4)
    assert group.snapshot() == {"s.topic.t.lag": 4}
    group.drop_part("p0")
    group.drop_part("p0")
    assert group.snapshot() == {}


def test_steps_of_one_name_are_told_apart() -> None:
    assert metric_names.step_keys(["map", "map", "map (2)", "map"]) == [
        "map",
        "map (2)",
        "map (2) (2)",
        "map (3)",
    ]
