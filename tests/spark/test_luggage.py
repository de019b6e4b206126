"""Packages with data and compiled parts, namespaces, archives and requirements: on one machine, by path.

On a cluster: ``test_standalone.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drivers import run
from packing_up import check, pack_up

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_code_travels_whole_on_one_machine(master: str, tmp_path: Path) -> None:
    pack_up(tmp_path)
    check(run(tmp_path, "luggage.py", master, tmp_path), tmp_path, by_path=True)
