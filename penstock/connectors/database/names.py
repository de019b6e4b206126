"""Names of what a sink leaves in a database until it is committed.

A name says whose it is: job, sink and database (hashed), the attempt and the subtask.  So a later attempt
recognises what earlier ones left, from any subtask of any parallelism, and another job's is never touched.
Attempts are ordered by their generation, also those of an earlier life of the job (design note 002).  The
random end keeps tries of one attempt apart.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass

from penstock.connectors.sink import WriterContext, digest_of_sink

_PATTERN = re.compile(r"ps_([0-9a-f]{16})_(\d+)_(\d+)_([0-9a-f]{6})_(\d+)")


@dataclass(frozen=True, slots=True)
class Maker:
    """The writer that makes names: one subtask in one attempt."""

    owner: str
    generation: int
    subtask: int
    token: str

    @classmethod
    def of(cls, context: WriterContext, database: str) -> Maker:
        """The maker for a writer of this context."""
        return cls.after(context.job_name, context.sink_id, database, context.generation - 1, context.subtask)

    @classmethod
    def after(cls, job_name: str, sink_id: str, database: str, generation: int, subtask: int = 0) -> Maker:
        """A maker to whom what attempts up to ``generation`` made is left over."""
        owner = digest_of_sink(job_name, sink_id, database)
        return cls(owner, generation + 1, subtask, uuid.uuid4().hex[:6])

    @property
    def prefix(self) -> str:
        """How all names of this job's sink begin."""
        return f"ps_{self.owner}_"

    def name(self, number: int) -> str:
        """The ``number``-th name: at most 63 characters, fit for an XA id and for a table.

        PostgreSQL would cut off the rest of a longer one, and with it what tells two tables apart.
        """
        return f"{self.prefix}{self.generation}_{self.subtask}_{self.token}_{number}"

    def is_leftover(self, name: str) -> bool:
        """Whether an earlier attempt made this name, so that nobody will commit what has it.

        When an attempt starts, everything that its snapshot holds has been committed.  Names of newer
        attempts are none: then it is this attempt that is over and does not know it.
        """
        found = _PATTERN.fullmatch(name)
        return found is not None and found[1] == self.owner and int(found[2]) < self.generation


def writer_of(name: str) -> str:
    """What the names of one writer have in common."""
    return name.rpartition("_")[0]


def run_prefix(name: str) -> str:
    """The prefix shared by all names of that sink and attempt; in BATCH mode a run is one attempt."""
    return name[: name.index("_", len(owner_prefix(name))) + 1]


def owner_prefix(name: str) -> str:
    """The prefix shared by all names of the sink that made ``name``."""
    return name[: name.index("_", 3) + 1]
