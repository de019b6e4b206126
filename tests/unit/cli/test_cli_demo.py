"""The demo's judgement, without a job: what it calls lost, repeated or wrong."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from penstock.cli.demo import verdict_line
from penstock.cli.main import cli
from penstock.connectors.log import Log, Producer
from penstock.core.clock import SystemClock
from penstock.demo.chart import bars, draw, top_countries
from penstock.demo.clicks import (
    FIRST_MS,
    HOUR_MS,
    HOURS,
    JITTER_MS,
    PARTITIONS,
    TOPIC,
    last_offsets,
    make_clicks,
    produce,
)
from penstock.demo.drive import DemoSettings, Outcome
from penstock.demo.verdict import ALERTS, COUNTS, Verdict, judge, true_counts

EVENTS = 2000
THRESHOLD = 12


@pytest.fixture
def log(tmp_path):
    made = Log(tmp_path / "log")
    made.create_topic(TOPIC, PARTITIONS)
    made.create_topic(COUNTS)
    made.create_topic(ALERTS)
    produce(str(made.root), EVENTS, 7, 0.1, SystemClock())
    return made


def write(log, counts, alerts):
    for name, rows in ((COUNTS, counts), (ALERTS, alerts)):
        with Producer(log.topic(name)) as producer:
            for row in rows:
                producer.send(json.dumps(row).encode())


def right_output(log):
    truth = true_counts(log.root)
    counts = [{"country": c, "hour": h, "clicks": n} for (c, h), n in truth.items()]
    alerts = [{"country": c, "hour": h, "clicks": THRESHOLD} for (c, h), n in truth.items() if n >= THRESHOLD]
    assert 0 < len(alerts) < len(counts)
    return counts, alerts


def judged(log, counts, alerts):
    write(log, counts, alerts)
    return judge(log.root, THRESHOLD)


def test_clicks_are_the_same_for_the_same_seed_and_late_by_less_than_the_program_waits():
    one, two = make_clicks(EVENTS, 7), make_clicks(EVENTS, 7)
    assert np.array_equal(one.times, two.times) and one.values.equals(two.values)
    assert not one.values.equals(make_clicks(EVENTS, 8).values)
    assert one.times.min() >= FIRST_MS and one.times.max() < FIRST_MS + HOURS * HOUR_MS
    assert (np.maximum.accumulate(one.times) - one.times).max() <= JITTER_MS


@pytest.mark.parametrize("events", [1, 4, 2001])
def test_the_end_is_known_in_advance(events):
    ends = [end for _, end in last_offsets(events).exact]
    assert ends == [len(range(p, events, PARTITIONS)) for p in range(PARTITIONS)]


def test_the_producer_writes_exactly_that(log):
    described = log.describe(TOPIC)
    assert [p.end_offset for p in described.partitions] == [end for _, end in last_offsets(EVENTS).exact]
    assert sum(true_counts(log.root).values()) == EVENTS


def test_right_output_is_ok(log, tmp_path):
    verdict = judged(log, *right_output(log))
    assert verdict.ok and verdict.events == EVENTS and not verdict.wrong_rows
    settings = DemoSettings(EVENTS, 1)
    line, ok = verdict_line(Outcome(verdict, (1.25,), 9, 1, THRESHOLD, tmp_path), settings)
    assert ok
    assert line == f"exactly-once: ok events={EVENTS} lost=0 duplicated=0 crashes=1 recovery_s=1.25"
    draw(verdict, THRESHOLD, tmp_path / "new" / "chart.png")
    assert (tmp_path / "new" / "chart.png").stat().st_size > 10_000
    most = max(verdict.counts.values())
    rows = [bars(verdict, country, most) for country, _ in top_countries(verdict, 5)]
    assert {len(row) for row in rows} == {HOURS} and "█" in "".join(rows)


def test_a_bar_is_as_high_as_its_share_of_the_most():
    clicks = dict(enumerate([0, 1, 50, 51, 100]))
    counts = {("x", FIRST_MS + hour * HOUR_MS): count for hour, count in clicks.items()}
    verdict = Verdict(EVENTS, 0, 0, 0, 0, counts, frozenset())
    assert bars(verdict, "x", 100) == " ▁▄▅█" + " " * (HOURS - 5)
    assert bars(verdict, "y", 0) == " " * HOURS


def test_a_picture_needs_its_package_and_the_demo_says_so_before_it_runs(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = CliRunner().invoke(cli, ["demo", "--chart", str(tmp_path / "chart.png")])
    assert done.exit_code == 1 and not done.stdout
    assert "pip install 'penstock[charts]'" in " ".join(done.stderr.split())


def test_a_crash_that_did_not_happen_is_no_success(log, tmp_path):
    verdict = judged(log, *right_output(log))
    line, ok = verdict_line(Outcome(verdict, (), 9, 0, THRESHOLD, tmp_path), DemoSettings(EVENTS, 1))
    assert not ok and line.startswith("exactly-once: FAILED") and "crashes=0 recovery_s=-" in line


def test_a_missing_count_is_lost(log):
    counts, alerts = right_output(log)
    gone = counts.pop()
    verdict = judged(log, counts, alerts)
    assert (verdict.ok, verdict.lost, verdict.duplicated, verdict.wrong_rows) == (False, gone["clicks"], 0, 1)


def test_a_repeated_count_is_duplicated(log):
    counts, alerts = right_output(log)
    verdict = judged(log, [*counts, counts[0]], alerts)
    assert (verdict.ok, verdict.lost, verdict.duplicated) == (False, 0, counts[0]["clicks"])


def test_one_click_too_many_and_one_too_few_do_not_cancel_out(log):
    counts, alerts = right_output(log)
    counts[0] = counts[0] | {"clicks": counts[0]["clicks"] + 1}
    counts[1] = counts[1] | {"clicks": counts[1]["clicks"] - 1}
    verdict = judged(log, counts, alerts)
    assert (verdict.ok, verdict.lost, verdict.duplicated, verdict.wrong_rows) == (False, 1, 1, 2)


def test_a_count_in_two_pieces_is_wrong_though_the_sum_is_right(log):
    counts, alerts = right_output(log)
    rest = counts[0]["clicks"] - 1
    counts[0] = counts[0] | {"clicks": 1}
    verdict = judged(log, [*counts, counts[0] | {"clicks": rest}], alerts)
    assert (verdict.ok, verdict.lost, verdict.duplicated, verdict.wrong_rows) == (False, 0, 0, 1)


@pytest.mark.parametrize("change", ["missing", "twice", "superfluous"])
def test_alerts_must_be_there_once_each(log, change):
    counts, alerts = right_output(log)
    quiet = next(row for row in counts if row["clicks"] < THRESHOLD)
    wrong = {"missing": alerts[1:], "twice": [*alerts, alerts[0]], "superfluous": [*alerts, quiet]}[change]
    verdict = judged(log, counts, wrong)
    assert (verdict.ok, verdict.wrong_alerts) == (False, 1)


@pytest.mark.parametrize("args", [["--events", "5"], ["--crashes", "-1"]])
def test_bad_usage(args):
    assert CliRunner().invoke(cli, ["demo", *args]).exit_code == 2


def test_the_master_must_be_local():
    result = CliRunner().invoke(cli, ["demo", "--master", "k8s://https://api:6443"])
    assert result.exit_code == 1 and "local[N]" in result.stderr
    result = CliRunner().invoke(cli, ["demo", "--master", "spark://elsewhere.example:7077"])
    assert result.exit_code == 1 and "all workers here" in result.stderr
