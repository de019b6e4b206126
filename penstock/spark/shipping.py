"""Gets Penstock and the user's own modules to executors that do not have them.

Third-party packages stay the user's business: install them in the executors' Python, or use Spark's
own ways (archives, conda-pack).

Executors fetch what they lack from the driver's files whenever they start, also long after the job that
shipped them.  So the files are there as long as the Spark application is, and are removed at its end, by
the next application of this process or when the process ends; those of a process that was killed, by the
next one on this machine.
"""

from __future__ import annotations

import atexit
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from penstock.core.errors import ConfigError
from penstock.core.own_files import open_file
from penstock.core.work_place import WorkPlace
from penstock.spark.masters import refuse_connect
from penstock.spark.slots import is_one_machine

PREFIX = "penstock-ship-"
_shipped: set[tuple[str, str]] = set()
_places: dict[str, WorkPlace] = {}
"""By application: where its files are."""


def ship(spark: SparkSession, extra: tuple[str, ...] = ()) -> None:
    """Add what is missing on executors to the session: once per session and file."""
    refuse_connect()
    application = spark.sparkContext.applicationId
    sources = [Path(name) for name in extra]
    for source in sources:
        if not source.exists():
            raise ConfigError(f"add_python_file: {source} does not exist")
    if not is_one_machine(spark) or spark.sparkContext.master.startswith("local-cluster"):
        sources.append(Path(penstock.__file__).parent)
    sources += user_modules()
    for source in sources:
        mark = (application, str(source.resolve()))
        if mark not in _shipped:
            _shipped.add(mark)
            spark.sparkContext.addPyFile(str(_packed(source, application)))


def user_modules() -> list[Path]:
    """Top-level modules that the program imported from places where nothing is installed."""
    installed = {Path(path).resolve() for path in sysconfig.get_paths().values()}
    own = Path(penstock.__file__).resolve().parent
    found: set[Path] = set()
    # Threads of jobs that run already import modules: only a copy of the whole dictionary is one step.
    for name, module in sys.modules.copy().items():
        origin = getattr(module, "__file__", None)
        if name == "__main__" or "." in name or not origin or not origin.endswith(".py"):
            continue
        path = Path(origin).resolve()
        top = path.parent if path.name == "__init__.py" else path
        is_installed = any(place in path.parents or place == path.parent for place in installed)
        if not is_installed and top != own and own not in path.parents:
            found.add(top)
    return sorted(found)


def place_of(application: str) -> Path:
    """Where the files of a Spark application are. A process has one at a time: those of others go."""
    for other in _places.keys() - {application}:
        _places.pop(other).remove()
    if application not in _places:
        _places[application] = place = WorkPlace.make(Path(tempfile.gettempdir()), PREFIX)
        atexit.register(place.remove)
    return _places[application].path


def _packed(source: Path, application: str) -> Path:
    """A file Spark can put on the Python path: packages are zipped."""
    if source.is_file():
        return source
    target = Path(tempfile.mkdtemp(dir=place_of(application))) / f"{source.name}.zip"
    with open_file(target, "xb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*.py")):
            archive.write(path, path.relative_to(source.parent))
    return target
