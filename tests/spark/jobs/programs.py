"""Program: other programs, one after the other in one session.

    programs.py OUTPUTS PROGRAM...

Runs each as ``python PROGRAM`` would, but for the process; what the third prints goes to ``OUTPUTS/2``.
"""

from __future__ import annotations

import contextlib
import io
import logging
import runpy
import sys
from pathlib import Path


def main(outputs: Path, programs: list[str]) -> None:
    """Run everything."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    path = list(sys.path)
    for number, program in enumerate(programs):
        sys.argv = [program]
        sys.path[:] = [str(Path(program).resolve().parent), *path]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                runpy.run_path(program, run_name="__main__")
            except BaseException as error:
                raise RuntimeError(f"{program} failed behind this output:\n{printed.getvalue()}") from error
        (outputs / str(number)).write_text(printed.getvalue(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
