"""Why in words, the record that caused a failure, and state: what a person reads on the page."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.fake_job import JOB, now_ms
from tests.console.fake_rest import FakeRest
from tests.console.fake_state import HOSTILE

MARKUP = "<img src=x onerror=alert(1)>"


def told() -> dict[str, object]:
    return {
        "now": now_ms(),
        "watermark": {
            "holder": f"split 3 of orders{MARKUP}",
            "because": f"split 3 of orders{MARKUP} has given nothing",
            "since": now_ms() - 90_000,
            "still": True,
            "lag_ms": 95_000,
        },
        "bottleneck": {"text": "totals is busy 97% of the time, and enrich waits for it.", "busy": 0.97}
        | {"waiting": ["enrich"]},
        "hot_key_groups": [
            {
                "step": "totals",
                "vertex": "d" * 32,
                "key_group": 17,
                "subtask": 3,
                "share": 0.31,
                "even": 0.0078,
            }
        ],
        "freshness": {
            "sources": [{"step": "orders", "vertex": "a" * 32, "lag_ms": 95_000, "idle_subtasks": 1}],
            "sinks": [
                {
                    "step": "out",
                    "vertex": "e" * 32,
                    "lag_ms": None,
                    "commits": True,
                    "visible_up_to_ms_ago": 61_000,
                }
            ],
            "late_dropped": 1234,
            "late_dropped_by": {"totals": 1234},
            "dead_letters": 2,
            "dead_letters_by": {"orders": 2},
        },
    }


def test_why_is_said_in_words_on_the_overview(browser: Browser, rest: FakeRest) -> None:
    rest.why = told()
    browser.open(rest.url, f"job/{JOB}")
    said = browser.until_says(
        "Event time stands still since",
        f"because split 3 of orders{MARKUP} has given nothing.",
        "Bottleneck: totals is busy 97% of the time, and enrich waits for it.",
        "Key group 17 of totals gets 31 % of its records, at subtask 3: 40 times an even share.",
        "1,234 late records were dropped, by totals.",
        "2 records could not be read, by orders.",
    )
    assert "Nothing holds the job back." not in said
    assert not browser.all("main img")
    browser.go(f"job/{JOB}/why")
    browser.until_says("That is because split 3 of orders", "Freshness", "no event time", "1 min 1 s ago")
    rest.why = {"watermark": None, "hot_key_groups": [], "freshness": {}}
    browser.go(f"job/{JOB}")
    browser.until_says("Nothing holds the job back.")


def test_the_record_that_caused_a_failure_is_text(browser: Browser, rest: FakeRest) -> None:
    rest.job.fail()
    rest.job.failures[0]["failureLabels"] = {
        "record": f"{{'user': '{MARKUP}', 'token': ***}}",
        "step": "enrich",
    }
    browser.open(rest.url, f"job/{JOB}/exceptions")
    browser.until_says("The record that caused it", f"{{'user': '{MARKUP}', 'token': ***}}", "enrich")
    assert not browser.all("main img")


def test_a_key_is_looked_up_in_the_newest_snapshot(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, f"job/{JOB}/state")
    browser.until_says("Snapshot 40", "keyed, per window", "1,204")
    browser.press("profile")
    field = browser.until(lambda: browser.all("form.filter input[type=text]"))[0]
    field.send_keys("ann")
    browser.press("Look up")
    browser.until_says(HOSTILE)
    assert not browser.all("main img")
    field.clear()
    field.send_keys("nobody")
    browser.press("Look up")
    browser.until_says("has nothing for the key nobody")
    assert "Source: clicks" in browser.text and not browser.all(".failure")
    rest.absent = {"profile"}
    browser.press("Look up")
    browser.until_says("There is no profile here.")


def test_records_that_flow_are_text(browser: Browser, rest: FakeRest) -> None:
    browser.open(rest.url, f"job/{JOB}/overview/{'d' * 32}/tail")
    browser.until_says("come to this step", f"{HOSTILE} 2")
    assert not browser.all("main img")
