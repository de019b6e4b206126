from __future__ import annotations

import json
import sys

import pytest

from penstock.core.errors import ConfigError
from penstock.core.optional import require


def test_a_module_that_is_there_is_imported():
    assert require("json", "kafka") is json


def test_a_missing_package_names_the_extra():
    with pytest.raises(ConfigError, match=r"'no_such_client'.*penstock\[kafka\]"):
        require("no_such_client.producer", "kafka")


def test_a_package_that_misses_something_itself_says_so(tmp_path, monkeypatch):
    (tmp_path / "halfclient.py").write_text("import something_it_needs\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="something_it_needs"):
        require("halfclient", "kafka")
    assert "halfclient" not in sys.modules
