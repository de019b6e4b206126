"""Names of what a sink leaves in a database until it is committed.

A name says whose it is: job, sink and database (hashed), the attempt, the subtask, and when the writer
was made.  So a later attempt recognises what earlier ones left, from any subtask of any parallelism, and
another job's is never touched.  The random end keeps names apart that would be equal when a job is
started from nothing a second time.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from dataclasses import dataclass

from penstock.connectors.sink import WriterContext

_PATTERN = re.compile(r"ps_([0-9a-f]{16})_(\d+)_(\d+)_(\d+)_([0-9a-f]{6})_(\d+)")
_MINUTE_S = 60
_DAY_S = 24 * 60 * _MINUTE_S


@dataclass(frozen=True, slots=True)
class Maker:
    """The writer that makes names: one subtask in one attempt."""

    owner: str
    generation: int
    subtask: int
    born_s: int
    token: str
    spread_s: int
    """How much earlier than this one another writer of the same attempt may have been made, at most."""

    @classmethod
    def of(cls, context: WriterContext, database: str) -> Maker:
        """The maker for a writer of this context."""
        text = "\0".join((context.job_name, context.sink_id, database))
        owner = hashlib.sha256(text.encode()).hexdigest()[:16]
        token = uuid.uuid4().hex[:6]
        # Writers of a gang are made together; those of a stage in BATCH mode when it is their turn.
        spread = 10 * _MINUTE_S if context.checkpointing else _DAY_S
        born = context.clock.now_ms() // 1000
        return cls(owner, context.generation, context.subtask, born, token, spread)

    @property
    def prefix(self) -> str:
        """How all names of this job's sink begin."""
        return f"ps_{self.owner}_"

    def name(self, number: int) -> str:
        """The ``number``-th name: at most 63 characters, fit for an XA id and for a table.

        PostgreSQL would cut off the rest of a longer one, and with it what tells two tables apart.
        """
        return f"{self.prefix}{self.generation}_{self.subtask}_{self.born_s}_{self.token}_{number}"

    def is_leftover(self, name: str) -> bool:
        """Whether nobody will commit what has this name. To be asked by a new attempt's first subtask.

        When an attempt starts, everything that its snapshot holds has been committed.  An older attempt's
        is therefore over.  So is that of an attempt with the same or a higher number from a life of the
        job whose checkpoints are gone: it is older than anything of this attempt can be.
        Newer ones stay: then it is this attempt that is over and does not know it.
        """
        found = _PATTERN.fullmatch(name)
        if found is None or found[1] != self.owner:
            return False
        return self.is_older(name) or int(found[4]) < self.born_s - self.spread_s

    def is_older(self, name: str) -> bool:
        """Whether an earlier attempt made this name. May be asked by any subtask at any time."""
        found = _PATTERN.fullmatch(name)
        return found is not None and found[1] == self.owner and int(found[2]) < self.generation


def writer_of(name: str) -> str:
    """What the names of one writer have in common."""
    return name.rpartition("_")[0]


def owner_prefix(name: str) -> str:
    """The prefix shared by all names of the sink that made ``name``."""
    return name[: name.index("_", 3) + 1]
