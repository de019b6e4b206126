"""The shop's job with another rule.

penstock fork SAVEPOINT shop_job_generous.py DIRECTORY
"""

from __future__ import annotations

from shop import run


def generous_bonus(total: int) -> int:
    """The rule to be tried: from 500 on."""
    return total // 100 if total >= 500 else 0


run(generous_bonus)
