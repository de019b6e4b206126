"""Settings of the archive of jobs that have ended."""

from __future__ import annotations

from penstock.core.option import Kind, Option, OptionGroup

ARCHIVE_OPTIONS = OptionGroup()
_add = ARCHIVE_OPTIONS.add


ARCHIVE_DIR: Option[str | None] = _add(
    "jobmanager.archive.fs.dir",
    Kind.STRING,
    None,
    "Directory, also as a URL, to which a job is archived when it ends, for `penstock ui` and "
    "`penstock events`.",
)
ARCHIVES_SHOWN: Option[str | None] = _add(
    "historyserver.archive.fs.dir",
    Kind.STRING,
    None,
    "Directories, separated by commas, whose archived jobs `penstock ui` shows; if not set, that of "
    "`jobmanager.archive.fs.dir`.",
)
ARCHIVES_RETAINED: Option[int] = _add(
    "historyserver.archive.retained-jobs",
    Kind.INT,
    "1000",
    "How many archived jobs are kept in the directory: whoever adds one removes the oldest. -1 keeps all.",
    least=1,
    unset=-1,
)
