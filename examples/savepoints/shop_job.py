"""The shop's job as a program.

penstock run shop_job.py [DIRECTORY]
"""

from __future__ import annotations

from shop import right_bonus, run

run(right_bonus)
