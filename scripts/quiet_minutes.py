"""Ten quiet minutes: a job that is well, a real Prometheus with the shipped rules as they are, and no alert.

    python scripts/quiet_minutes.py [minutes]

Needs Debian's package ``prometheus``.  Prints what fired and ends with 1 if anything did.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "integration"), str(ROOT / "tests" / "spark" / "jobs")]

from alert_job import watched  # noqa: E402

from tests.prometheus_kit import RULES, PrometheusServer  # noqa: E402

LOOK_S = 5.0


def main() -> int:
    """Watch for that long; 1 if something fired or could not be watched."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    if reason := PrometheusServer.why_not():
        print(reason)
        return 2
    fired: set[str] = set()
    with (
        tempfile.TemporaryDirectory() as place,
        watched(Path(place)) as job,
        PrometheusServer(job.serving.url, job.serving.token, RULES.read_text()) as seen,
    ):
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            time.sleep(LOOK_S)
            fired |= seen.firing()
        problems, scrapes = seen.problems(), seen.scrapes()
    print(f"{minutes:g} minutes, {scrapes} scrapes, fired: {', '.join(sorted(fired)) or 'nothing'}")
    for problem in problems:
        print(problem)
    return 1 if fired or problems or not scrapes else 0


if __name__ == "__main__":
    raise SystemExit(main())
