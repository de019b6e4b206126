"""Program: jobs whose functions need packages, data, archives and requirements of all kinds.

luggage.py MASTER WORK

Everything it imports and names is made below WORK by the test.  Each job prints a line of JSON: what its
functions found.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from progress import environment

from penstock.common import Types
from penstock.datastream import RuntimeExecutionMode

WORK = Path(sys.argv[2])
sys.path[:0] = [str(WORK / "code"), str(WORK / "more")]
SETTINGS = {
    "spark__cores__max": "2",
    "spark__executor__cores": "1",
    "spark__executor__memory": "512m",
    "spark__driver__host": "127.0.0.1",
}


def seen(number: int) -> str:
    """What a function sees: it imports what the program has not, too."""
    import given
    import later
    import needed
    import planet.earth
    import planet.mars
    import quick
    import shelf
    import swift

    found: dict[str, Any] = {
        "number": number,
        "data": shelf.words(),
        "namespace": [planet.earth.NAME, planet.mars.NAME],
        "compiled": quick.escaped("<"),
        "wheel": swift.escaped(">"),
        "requirement": needed.NAME,
        "file": given.NAME,
        "neighbour": later.NAME,
        "archive": Path("stock.zip/count.txt").read_text(),
        "target": Path("renamed/count.txt").read_text(),
        "origins": {
            module.__name__: str(Path(module.__file__).parent)
            for module in (shelf, quick, swift, needed, given, planet.mars)
        },
    }
    return json.dumps(found)


def run(master: str, mode: RuntimeExecutionMode, stock: str) -> None:
    """One job."""
    env = environment(master, None, **SETTINGS).set_parallelism(2).set_runtime_mode(mode)
    env.add_python_file(str(WORK / "files" / "given.py"))
    env.add_python_file(str(next((WORK / "files").glob("swift-*.whl"))))
    env.add_python_archive(str(WORK / stock / "stock.zip"))
    env.add_python_archive(str(WORK / "other.tar.gz"), "renamed")
    env.set_python_requirements(str(WORK / "requirements.txt"), str(WORK / "wheels"))
    numbers = env.from_collection([1, 2], Types.INT()).rebalance()
    for line in numbers.map(seen, Types.STRING()).execute_and_collect(f"{mode.name} {stock}"):
        print("seen", mode.name, stock, line, flush=True)


def main(master: str) -> None:
    """A stream, and a batch job with other content under the same names: in one application."""
    for module in ("shelf", "quick", "planet.mars"):
        importlib.import_module(module)
    run(master, RuntimeExecutionMode.STREAMING, "first")
    (WORK / "code" / "shelf" / "words.txt").write_text("edited")
    (WORK / "files" / "given.py").write_text("NAME = 'given anew'\n")
    run(master, RuntimeExecutionMode.BATCH, "second")
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
