"""What names stand for: tables, views, functions.  Names are as they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.expressions.suggest import nearest
from penstock.sql.expressions import PythonFunction
from penstock.sql.relations import Relation
from penstock.sql.tables import TableDefinition


@dataclass
class Catalog:
    """The names of a session.  A table is read by one source, however many statements of a job ask for it."""

    tables: dict[str, TableDefinition] = field(default_factory=dict)
    views: dict[str, Callable[[], Relation]] = field(default_factory=dict)
    frames: dict[str, Relation] = field(default_factory=dict)
    """DataFrames that the program has given a name."""
    functions: dict[str, PythonFunction] = field(default_factory=dict)
    _planned: dict[str, Relation] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Everything that can stand behind FROM."""
        return sorted({*self.tables, *self.views, *self.frames})

    def is_known(self, name: str) -> bool:
        """Whether something can be read under this name."""
        return name in self.tables or name in self.views or name in self.frames

    def near(self, name: str) -> str:
        """The end of a message about a table that is not there."""
        return nearest(name, self.names) or (
            "; there is no table at all: CREATE TABLE" if not self.names else ""
        )

    def relation(self, name: str, read: Callable[[str, TableDefinition], Relation]) -> Relation | None:
        """What a name stands for; ``read`` makes the source of a table."""
        if name in self.frames:
            return self.frames[name]
        found = self._planned.get(name)
        if found is None and name in self.views:
            found = self._planned[name] = self.views[name]()
        elif found is None and name in self.tables:
            found = self._planned[name] = read(name, self.tables[name])
        return found

    def forget(self, name: str) -> None:
        """Take a name away, and what was made of it."""
        for kept in (self.tables, self.views, self.frames):
            kept.pop(name, None)
        self._planned.pop(name, None)
