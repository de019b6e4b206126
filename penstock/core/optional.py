"""Clients of outside systems are optional: a job that does not use one does not need its package."""

from __future__ import annotations

import importlib
from types import ModuleType

from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``; if its package is missing, say which extra of Penstock brings it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name is None or not (module == e.name or module.startswith(e.name + ".")):
            raise
        raise ConfigError(
            f"this needs the Python package {module.split('.')[0]!r}, which is not installed here: "
            f"pip install 'penstock[{extra}]' on the driver, and see that the executors have it too",
            code=Code.PACKAGE_MISSING,
        ) from e
