"""The program that ``interrupt.py`` interrupts: sums per key into files, exactly once.

    interrupt_job.py WORK

Its checkpoints are those of a job that is deleted when it is cancelled: the default.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "spark" / "jobs")]

from flow_graphs import KEYS, Pace, SumUp, text_file_sink  # noqa: E402
from progress import environment  # noqa: E402

from penstock.common import WatermarkStrategy  # noqa: E402

COUNT, RATE = 3000, 1000.0


def main(work: Path) -> None:
    """From the start, or from the newest checkpoint, to the end."""
    env = environment(
        "local[2]",
        work / "checkpoints",
        execution__checkpointing__externalized_checkpoint_retention="DELETE_ON_CANCELLATION",
    ).set_parallelism(2)
    source = Pace(RATE).source(lambda i: (i % KEYS, i), COUNT)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    expected = dict(Counter(i % KEYS for i in range(COUNT)))
    result = numbers.key_by(lambda pair: pair[0]).process(SumUp(expected)).uid("sum")
    result.sink_to(text_file_sink(work / "out")).uid("file")
    env.execute("to be interrupted")
    print("done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
