"""A few records of one place, as text, for somebody who watches the stream.

Only there while somebody does: else it costs an empty call a batch.  Fields that are secret are taken out
here, so they never leave the process that has them anyway.
"""

from __future__ import annotations

import numpy as np

from penstock.core.batch import Batch
from penstock.core.ids import VertexId
from penstock.core.secret_fields import SecretFields

MOST = 20
PATIENCE = 30
"""Heartbeats without a record, after which it ends."""
_OF_A_BATCH = 4
_LONGEST = 500


class Tail:
    """Takes some records of some batches, up to :data:`MOST`.  Used by the task's own thread alone."""

    def __init__(self, vertex: VertexId, secret: SecretFields) -> None:
        self.vertex = vertex
        """The one that somebody watches."""
        self.texts: list[str] = []
        self.waited = 0
        """Heartbeats since it began."""
        self._secret = secret

    def saw(self, batch: Batch) -> None:
        """Records pass; whatever cannot be shown of them does no harm."""
        count = min(MOST - len(self.texts), _OF_A_BATCH, len(batch))
        if count <= 0:
            return
        try:
            picked = batch.take(np.arange(count) * (len(batch) // count))
            self.texts.extend(self._secret.text(record, _LONGEST) for record in picked.to_rows())
        except Exception as error:
            self.texts.append(f"(a record that cannot be shown: {type(error).__name__})")


class _Unwatched(Tail):
    """Nobody watches."""

    def saw(self, batch: Batch) -> None:
        return


UNWATCHED: Tail = _Unwatched(VertexId(""), SecretFields(()))
"""What stands where nobody watches."""
