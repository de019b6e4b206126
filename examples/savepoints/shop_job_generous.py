"""The shop's job with another rule.

penstock fork SAVEPOINT shop_job_generous.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from shop import start


def generous_bonus(total: int) -> int:
    """The rule to be tried: from 500 on."""
    return total // 100 if total >= 500 else 0


start(Path(sys.argv[1]), generous_bonus).get_job_execution_result().result()
