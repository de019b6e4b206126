"""What a job of many slots costs its driver: the real one, with the slots of ``played_slots.py``.

``python benchmarks/slots.py --slots 10 100 1000`` takes the job, in a process of its own for each number of
slots, through start, checkpoints, heartbeats and a restart, and prints a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from played_slots import Job

from penstock.exchange.control_frames import from_bytes
from penstock.graph.budget import NetworkBudget


def measured(slots: int, directory: Path) -> dict[str, float]:
    """What a job of so many slots costs."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    job, found = Job(slots, directory), dict[str, float]()
    wires = job.wires
    job.start()
    found |= {"start_s": job.spent(), "plan_bytes": job.plan_bytes, "deploy_bytes": len(wires.deploy)}
    found["start_mb"] = wires.bytes / 1e6
    for _ in range(2):
        job.beat()
    found["beat_s"] = job.spent() / 2
    job.checkpoint()
    job.spent()
    wires.messages = wires.bytes = job.heard = job.heard_bytes = 0
    job.checkpoint()
    found["checkpoint_s"] = job.spent()
    found |= {"out": wires.messages, "out_bytes": wires.bytes, "in": job.heard, "in_bytes": job.heard_bytes}
    job.checkpoint(in_files=True)
    job.spent()
    job.restart()
    found["restart_s"] = job.spent()
    found["memory_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    began = time.process_time()
    from_bytes(wires.deploy)
    budget = NetworkBudget(job.plan)
    found["slot_s"] = time.process_time() - began
    found["channels"] = max(budget.channels)
    return found


ROWS = {
    "start_s": ("driver's time until all run, s", "{:.2f}"),
    "plan_bytes": ("plan, bytes", "{:,.0f}"),
    "deploy_bytes": ("deployment of a slot, bytes", "{:,.0f}"),
    "start_mb": ("deployment in all, MB", "{:.2f}"),
    "checkpoint_s": ("driver's time for a checkpoint, s", "{:.2f}"),
    "in": ("messages from slots for it", "{:,.0f}"),
    "in_bytes": ("their bytes", "{:,.0f}"),
    "out": ("messages to slots for it", "{:,.0f}"),
    "out_bytes": ("their bytes", "{:,.0f}"),
    "beat_s": ("driver's time for a second of heartbeats, s", "{:.3f}"),
    "restart_s": ("driver's time for a restart, s", "{:.2f}"),
    "memory_mb": ("driver's memory, MB", "{:.0f}"),
    "slot_s": ("a slot's time to read this and plan its channels, s", "{:.3f}"),
    "channels": ("channels of a slot", "{:,.0f}"),
}


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slots", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--one", type=int, help="one number, in this process, as JSON")
    parser.add_argument("--profile", action="store_true", help="with --one: where the time goes")
    options = parser.parse_args()
    if options.one is not None:
        with tempfile.TemporaryDirectory() as directory:
            if options.profile:
                import cProfile

                cProfile.runctx("measured(options.one, Path(directory))", globals(), locals(), sort="tottime")
            else:
                print(json.dumps(measured(options.one, Path(directory))))
        return
    columns = [_of_child(slots) for slots in options.slots]
    print(f"| slots | {' | '.join(f'{slots:,}' for slots in options.slots)} |")
    print(f"| --- {'| ---: ' * len(columns)}|")
    for key, (what, form) in ROWS.items():
        print(f"| {what} | {' | '.join(form.format(column[key]) for column in columns)} |")


def _of_child(slots: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", str(slots)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()
