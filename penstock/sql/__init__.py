"""SQL over streams: statements become DataFrames, on the same operators, snapshots and savepoints.

>>> import penstock.dataframe as pf
>>> orders = pf.from_dict({"country": ["de", "fr"], "price": [3, 5]})
>>> Session().sql("SELECT country, price * 2 AS twice FROM orders WHERE price > 3", orders=orders).to_pylist()
[{'country': 'fr', 'twice': 10}]

``env.sql(...)`` is the same in the environment of a program.
"""

from __future__ import annotations

from typing import Any

from penstock.core.elsewhere import shown_in
from penstock.sql.errors import SqlError
from penstock.sql.session import Session, session_of

__all__ = ["Session", "SqlError", "session_of"]

shown_in(__name__, ["Session", "SqlError"], never_stored=True)


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext penstock.sql``: cells that begin with ``%%sql`` are statements."""
    from penstock.sql.magic import load

    load(ipython)
