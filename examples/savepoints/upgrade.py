"""A bug is fixed without losing a customer's total: stop with a savepoint, start the new code from it.

python upgrade.py [DIRECTORY]
"""

from __future__ import annotations

from pathlib import Path

from shop import (
    careless_bonus,
    expected,
    feed,
    orders,
    results,
    right_bonus,
    start,
    topics,
    wait_for,
    working_directory,
)


def main(work: Path) -> None:
    """Half of the orders with the bug, half without; totals go on."""
    topics(work, "totals")
    lines = orders(0, 200)
    feed(work, lines[:100])
    job = start(work, careless_bonus)
    wait_for(job, work, 100)
    savepoint = job.stop_with_savepoint(False).result()
    print(f"stopped with {savepoint}")

    feed(work, lines[100:])
    job = start(work, right_bonus, execution__state_recovery__path=savepoint)
    wait_for(job, work, 200)
    job.stop_with_savepoint(False).result()

    golden = expected(lines[:100], careless_bonus) + expected(lines, right_bonus, 100)
    assert sorted(results(work)) == sorted(golden)
    print("200 orders, each counted once; the fixed code knew the totals of the old one")


if __name__ == "__main__":
    main(working_directory())
