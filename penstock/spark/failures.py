"""Spark's errors in one sentence.

What Spark says is told from what a program or its data says, which Spark quotes: what Python raised is left
out where Spark's own words are looked for, and an exception of the JVM counts where such a one is named.
"""

from __future__ import annotations

import re
import sys

from penstock.core.error_codes import Code
from penstock.core.errors import ClusterError, PenstockError, ProcessLostError
from penstock.luggage.outfit import MARK

_REQUIREMENTS = ("penstock", "pyarrow", "numpy", "pandas", "cloudpickle", "cryptography", "fsspec")
_OUTFIT = re.compile(rf"^ *{MARK} (.+)", re.MULTILINE)
"""What kept a worker's Python from being started."""
_PYTHON = (
    (r"^ *RuntimeError: PENSTOCK-MISSING (.*)", "cannot import what Penstock needs ({0})"),
    (r"^ *ModuleNotFoundError: No module named '([^']+)'", "lacks the package {0!r}"),
    (
        r"Error: \[PYTHON_VERSION_MISMATCH\]\D*([\d.]+) than that in driver: (\d+\.\d+)",
        "is version {0} and that of the program is {1}: Spark needs the same minor version",
    ),
    (r'IOException: Cannot run program "[^"]+": (.*)', "cannot be started ({0})"),
)
_SAID = re.compile(r"^Error from python worker:\n((?: .*\n|\n)+)", re.MULTILINE)
"""What a Python wrote that ended before it was a worker."""
_OWN = re.compile(r"^penstock\.core\.errors\.\w+: (.+)", re.MULTILINE)
"""What a slot raised before its driver could hear of it."""
_KNOWN: tuple[tuple[str, ClusterError], ...] = (
    (
        r"requires more slots",
        ClusterError(
            "Spark has fewer free cores than the job needs slots; lower the parallelism",
            code=Code.TOO_FEW_SLOTS,
        ),
    ),
    (
        r"was cancelled|cancelled part of|cancelled as part",
        ClusterError("the job's Spark job was cancelled"),
    ),
)


_EXECUTOR = r"ExecutorLostFailure \(executor (\S+)|Executor heartbeat timed out"
_WORKER = (
    r"Python worker exited unexpectedly \(crashed\)"
    r"|(?:^|: )java\.(?:net\.SocketException|io\.IOException): (?:Connection reset|Broken pipe)"
    r"|(?:^|: )java\.(?:io\.EOFException|nio\.channels\.(?:Asynchronous)?ClosedChannelException)\b"
)
"""Also what is seen of one that was killed before it had read what it is to do."""
_OF_PYTHON = re.compile(r"(?ms)Traceback \(most recent call last\):.*?(?=^\tat |^ SQLSTATE|\Z)")
_QUOTED = re.compile(r"'(?:[^'\\\n]|\\.){0,2000}'")
"""A value of the data, as Spark writes it."""
_PLACE = r'Current thread.*\n\s*(File "[^"]+", line \d+ in \S+)'


class WorkerDiedError(ProcessLostError):
    """A Python worker of the job is gone; Spark knows no more than that."""


def translate(error: Exception, python: str) -> Exception:
    """A :class:`ClusterError` without the JVM's stack; ``python`` is what executors run."""
    if isinstance(error, PenstockError):
        return error
    unfit = _OUTFIT.search(str(error))
    if unfit is not None:
        return ClusterError(
            f"the Python workers of the job could not be started: {unfit[1].strip()}", code=Code.WORKER_PYTHON
        )
    wrong = wrong_python(error, python)
    if wrong is not None:
        return wrong
    text = str(error)
    said = _SAID.search(text)
    if said is not None and not re.search(_WORKER, text, re.MULTILINE):
        return ClusterError(
            f"the Python of the executors ({python}) could not be started as a worker: {_end_of(said[1])}",
            code=Code.WORKER_PYTHON,
        )
    own = _OWN.search(text)
    if own is not None:
        return ClusterError(f"a slot could not begin: {own[1]}")
    sparks = _QUOTED.sub("''", _OF_PYTHON.sub("", text))
    lost = _lost_process(sparks)
    if lost is not None:
        return lost
    for pattern, known in _KNOWN:
        if re.search(pattern, sparks):
            return type(known)(*known.args, code=known.code)
    return ClusterError(f"the job's Spark job failed: {gist(root_cause(text)) or type(error).__name__}")


def _lost_process(text: str) -> ProcessLostError | None:
    """With Spark's own reason, and the place in the code if Python could still write it down."""
    executor = re.search(_EXECUTOR, text)
    if executor:
        name = f" {executor[1]}" if executor[1] else ""
        reason = re.search(r"\bReason: (.+)|(Executor heartbeat timed out.*)", text)
        told = f": {(reason[1] or reason[2]).strip().rstrip('.')}" if reason else ""
        killed = re.search(r"\b(137|SIGKILL)\b", told) is not None
        hint = ". Signal 9 is what the kernel's out-of-memory killer sends" if killed else ""
        return ProcessLostError(f"Spark lost executor{name} of the job{told}{hint}")
    if not re.search(_WORKER, text, re.MULTILINE):
        return None
    fatal, place = re.search(r"Fatal Python error: (.+)", text), re.search(_PLACE, text)
    words = [found[count].strip() for count, found in ((0, fatal), (1, place)) if found]
    return WorkerDiedError(", ".join(["a Python worker of the job died", *words]))


def wrong_python(error: Exception, python: str) -> ClusterError | None:
    """The error in one paragraph, if executors run a Python that cannot do the job."""
    text = str(error)
    for pattern, problem in _PYTHON:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            what = problem.format(*found.groups())
            return ClusterError(
                f"the Python of the executors ({python}) {what}. {_way_out(found[1])}",
                code=Code.WORKER_PYTHON,
            )
    return None


def _way_out(missing: str) -> str:
    """What to do about it; a package that Penstock does not need itself may be a module of the user's."""
    way = (
        "Before the Spark session is made, set PYSPARK_PYTHON to a Python that has what the program needs "
        f"(the program itself runs in {sys.executable}), or install it there"
    )
    is_package = re.fullmatch(r"[A-Za-z_][\w.]*", missing) is not None
    if not is_package or missing.partition(".")[0] in _REQUIREMENTS:
        return way
    return f"{way}; modules of your own are shipped by env.add_python_file()"


def _end_of(said: str) -> str:
    """The exception behind a traceback, or else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    raised = [i for i, line in enumerate(lines) if re.match(r"(?:\w+\.)*\w*(?:Error|Exception|Exit)\b", line)]
    return " ".join(lines[raised[-1] :] if raised else lines[-1:])[:300]


def gist(text: str) -> str:
    """Of Spark's text the first line, and what was raised if that was Python."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception): .*", text, re.MULTILINE)
    python = raised[-1:] if "Traceback (most recent call last)" in text else []
    return " ".join([*lines[:1], *python])[:300]


def root_cause(text: str) -> str:
    """The message of the first exception of a JVM's stack, without its class and its frames."""
    found = re.search(r"^: *(?:[\w$]+\.)+[\w$]*(?:Exception|Error): *(.+)$", text, re.MULTILINE)
    return found[1] if found else text
