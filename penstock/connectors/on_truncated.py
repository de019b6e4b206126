"""What a source does when records are gone that it was to read next: design note 021.

Retention has overtaken the job, or what it reads was deleted and made anew.  Nothing can bring such
records back, so by default the job fails, for good, and says which they are.
"""

from __future__ import annotations

from enum import Enum


class OnTruncated(Enum):
    """What to do when the records to read next are gone."""

    ERROR = "error"
    """The job fails, naming the range. The default."""
    EARLIEST = "earliest"
    """Go on at the first record that is left; the log says what was lost."""
