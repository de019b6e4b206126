"""Program: other programs, one after the other in one session.

    programs.py MASTER DIRECTORY

Runs every ``*.py`` of the directory as a script; what it prints goes into a file ``*.out`` beside it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import runpy
import sys
from pathlib import Path

from penstock.datastream.job import Program, run_as


def main(master: str, directory: Path) -> None:
    """Run everything."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    settings = Program(overrides={"penstock.spark.master": master})
    for program in sorted(directory.glob("*.py")):
        sys.argv = [str(program)]
        with run_as(settings), contextlib.redirect_stdout(io.StringIO()) as printed:
            runpy.run_path(str(program), run_name="__main__")
        program.with_suffix(".out").write_text(printed.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
