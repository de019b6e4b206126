"""What would another rule have said about the orders since a savepoint? Nothing but the answer is written.

python what_if.py [DIRECTORY]
"""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from shop import feed, orders, results, right_bonus, start, topics, wait_for, working_directory

from penstock.cli.main import cli

HERE = Path(__file__).parent


def main(work: Path) -> None:
    """A savepoint in the middle; then ``penstock fork`` over the orders behind it."""
    topics(work, "totals")
    lines = orders(0, 160)
    feed(work, lines[:80])
    job = start(work, right_bonus)
    wait_for(job, work, 80)
    savepoint = job.trigger_savepoint().result()
    feed(work, lines[80:])
    wait_for(job, work, 160)
    job.stop_with_savepoint(False).result()

    programs = ["--against", str(HERE / "shop_job.py"), str(HERE / "shop_job_generous.py")]
    forked = CliRunner().invoke(cli, ["fork", savepoint, "--quiet-after", "0.5", *programs, str(work)])
    assert forked.exit_code == 0, forked.output
    assert len(results(work)) == 160, "the fork has written nothing"
    print(forked.output.rstrip())


if __name__ == "__main__":
    main(working_directory())
