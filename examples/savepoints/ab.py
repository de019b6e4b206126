"""Two versions of a rule, from one savepoint, over the same orders, side by side; and what differs.

python ab.py [DIRECTORY]
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from shop import expected, feed, orders, right_bonus, start, topics, wait_for, working_directory


def generous_bonus(total: int) -> int:
    """The rule to be tried: from 500 on."""
    return total // 100 if total >= 500 else 0


def main(work: Path) -> None:
    """The job itself goes on while A and B run beside it."""
    topics(work, "totals", "totals-a", "totals-b")
    lines = orders(0, 160)
    feed(work, lines[:80])
    job = start(work, right_bonus)
    wait_for(job, work, 80)
    savepoint = job.trigger_savepoint().result()

    rules = {"a": right_bonus, "b": generous_bonus}
    trials = {
        label: start(
            work,
            rule,
            name=f"shop-{label}",
            to=f"totals-{label}",
            parallelism=1,
            execution__state_recovery__path=savepoint,
            # The sink of the job is not in the trials, so what it had prepared is left to the job.
            execution__state_recovery__ignore_unclaimed_state="true",
        )
        for label, rule in rules.items()
    }
    feed(work, lines[80:])
    found = {label: Counter(wait_for(trial, work, 80, f"totals-{label}")) for label, trial in trials.items()}
    assert sorted(wait_for(job, work, 160)) == sorted(expected(lines, right_bonus)), (
        "the job was not disturbed"
    )
    for client in (job, *trials.values()):
        client.cancel().result()
    for label, rule in rules.items():
        assert found[label] == Counter(expected(lines, rule, 80))
    for line in sorted((found["a"] - found["b"]).elements()):
        print(f"A  {line}")
    for line in sorted((found["b"] - found["a"]).elements()):
        print(f"B  {line}")
    same = (found["a"] & found["b"]).total()
    print(f"{same} results are the same, {80 - same} differ")


if __name__ == "__main__":
    main(working_directory())
