"""Jobs whose records, plan and passwords carry marks: somebody listens on the network.

    captured.py MASTER OUT MARK...

One job for each mark.  The first sets nothing; the second asks for lines without TLS.
"""

from __future__ import annotations

import sys
from pathlib import Path

from flow_graphs import text_file_sink
from progress import environment

OPEN = {"security__ssl__internal__enabled": "false"}
COUNT = 2000


def run(master: str, out: Path, mark: str, **settings: str) -> None:
    small = {"spark__executor__cores": "1", "spark__executor__memory": "512m"}
    env = environment(master, None, **small, **settings).set_parallelism(2)
    password = f"password-{mark}"
    plan = f"plan-{mark}"
    (
        env.from_collection([(i, f"record-{mark}-{i}") for i in range(COUNT)])
        .map(lambda pair: (pair[0], pair[1], len(password), len(plan)))
        .key_by(lambda row: row[0] % 64)
        .map(lambda row: f"{row[1]} {len(password)}")
        .sink_to(text_file_sink(out / mark))
    )
    env.execute(f"captured {len(settings)}")
    print("done", len(settings), flush=True)


if __name__ == "__main__":
    first, second = sys.argv[3:]
    run(sys.argv[1], Path(sys.argv[2]), first)
    run(sys.argv[1], Path(sys.argv[2]), second, **OPEN)
