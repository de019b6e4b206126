"""Program for spark-submit: the command line, behind a job that says what its slots have.

    submitted.py demo ...

Each slot tells of the module that came by ``--py-files``, and where its Python is.
"""

from __future__ import annotations

import sys

import submitted_words

from penstock.cli.main import main
from penstock.datastream import StreamExecutionEnvironment


def where(number: int) -> str:
    """Runs in a slot."""
    return f"slot {number}: {submitted_words.WORD}, {sys.prefix}"


if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    with env.from_collection([1, 2]).map(where).execute_and_collect("where") as found:
        for line in sorted(found):
            print(line, flush=True)
    main()
