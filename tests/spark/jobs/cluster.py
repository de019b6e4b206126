"""Program: a keyed job on a standalone cluster.

cluster.py MASTER WORK
"""

from __future__ import annotations

import sys
from pathlib import Path

from flow_graphs import GRAPHS, SINKS, Pace
from progress import COUNT, environment


def main(master: str, work: Path) -> None:
    """Run it."""
    env = environment(
        master,
        work / "chk",
        spark__cores__max="2",
        spark__executor__cores="1",
        spark__executor__memory="512m",
        spark__driver__host="127.0.0.1",
    ).set_parallelism(2)
    GRAPHS["keyed"][0](env, lambda: SINKS["log"][0](work / "keyed"), COUNT, Pace())
    env.execute("on a cluster")
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
