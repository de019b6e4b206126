"""Requirements, installed by pip into a directory of their own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from penstock.core.discreet import discreet
from penstock.core.errors import ConfigError

_LAST = 6
_REFERENCE = re.compile(r"^\s*(-r|-c|-e|--requirement|--constraint|--editable)\b[\s=]*(\S+)")
_LOCAL = re.compile(r"^\s*(?:\S+\s*@\s*)?(?:file:)?(\.{1,2}/\S*|~/\S*|/\S+)")


def check_requirements(file: str) -> None:
    """Refuse what would be looked for beside the file: it travels alone."""
    for line in Path(file).read_text(encoding="utf-8", errors="replace").splitlines():
        found = _REFERENCE.match(line) or _LOCAL.match(line)
        if found is not None:
            raise ConfigError(
                f"the requirements file {file} refers to another file of this machine "
                f"({discreet(found[found.lastindex or 0])}), which does not travel with it. Write the lines "
                "of other files into it, and put packages that no index has into the directory that is "
                "given as requirements_cache_dir"
            )


def install(python: str, file: Path, cached: Path | None, target: Path, called: str) -> None:
    """Let the pip of ``python`` install; with a directory of packages, from there alone."""
    command = [python, "-m", "pip", "install", "--ignore-installed", "--disable-pip-version-check"]
    command += ["--no-input", "--target", str(target), "-r", str(file)]
    if cached is not None:
        command += ["--no-index", "--find-links", str(cached)]
    # What Spark puts on the path is not pip's business, and --user cannot go with a directory.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"} | {"PIP_USER": "0"}
    try:
        done = subprocess.run(
            command, env=environment, cwd=target, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except OSError as error:
        raise ConfigError(f"{called} could not be installed: {python} cannot be started ({error})") from None
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        offline = "" if cached is None else " from the given directory of packages"
        raise ConfigError(
            f"{called} could not be installed{offline} by {python}: {_last_lines(said)}. Correct it, or "
            "install the packages where the executors run"
        )


def _last_lines(said: str) -> str:
    lines = [" ".join(line.split()) for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return discreet(" / ".join((errors or lines)[-_LAST:]).rstrip("."))
