"""The shop's job as a program.

penstock run shop_job.py DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from shop import right_bonus, start

start(Path(sys.argv[1]), right_bonus).get_job_execution_result().result()
