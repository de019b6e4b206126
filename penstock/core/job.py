"""Identity and life of a job, as both the coordinator and the user's client speak of them."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from enum import Enum

from penstock.core.errors import ConfigError
from penstock.core.wanted import wanted


class JobStatus(Enum):
    """Where a job is in its life.

    >>> JobStatus.FINISHED.is_globally_terminal_state(), JobStatus.RUNNING.is_globally_terminal_state()
    (True, False)
    """

    CREATED = 0
    """Built, no slot runs yet."""
    RUNNING = 1
    FAILING = 2
    """A failure was seen; the slots are being stopped."""
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    """Waiting for the restart strategy, or starting slots again."""
    SUSPENDED = 8
    """This driver stopped, the job may go on elsewhere from its snapshot."""
    RECONCILING = 9
    """A new driver took the job over and looks for its newest snapshot."""

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether this driver will do nothing more for the job."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED


@dataclass(frozen=True, slots=True, order=True)
class JobID:
    """32 hexadecimal digits that name a job, in snapshot paths and in the REST API.

    >>> len(JobID.of_name("clicks").hex)
    32
    """

    hex: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{32}", self.hex):
            raise ConfigError(f"{self.hex!r} is no job id: it must be 32 digits of 0-9 and a-f")

    @staticmethod
    def of_name(name: str) -> JobID:
        """The id of the job called ``name``: the same on every machine and in every run."""
        return JobID(hashlib.sha256(normal_name(name).encode()).hexdigest()[:32])

    def __str__(self) -> str:
        return self.hex


def normal_name(text: str) -> str:
    """A job's name in its one form: letters that Unicode holds for the same are the same.

    Nothing else is: capital letters, other scripts and signs make another name.
    """
    try:
        wanted(str, text).encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{text!r} cannot be the name of a job: it is no valid Unicode text. Was it read from the "
            "command line in another encoding?"
        ) from None
    return unicodedata.normalize("NFC", text)
