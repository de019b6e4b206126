"""A file of settings: ``penstock.yaml``, or the ``config.yaml`` of a Flink installation.

Keys are written as they are (``parallelism.default: 4``), or in parts below each other, or mixed.  Values are
taken as they are written, and read by the kind of their setting.  YAML is only parsed: nothing is made of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from penstock.coordinator.registry import home
from penstock.core.config import SPARKS, find
from penstock.core.error_codes import Code
from penstock.core.errors import ConfigError
from penstock.core.flink_keys import is_flinks, with_instead

NAMES = ("penstock.yaml", "config.yaml", "flink-conf.yaml")
"""What is looked for in a directory, in this order."""
_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + kind for kind in ("str", "int", "float", "bool", "timestamp")}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a file says."""

    path: Path
    settings: dict[str, str] = field(repr=False)
    unused: tuple[str, ...]
    """Keys that Flink knows and that mean nothing here."""

    def said(self) -> str:
        """That it was read, in a line."""
        more = f" and {len(self.unused) - _SHOWN} more" if len(self.unused) > _SHOWN else ""
        shown = ", ".join(map(with_instead, self.unused[:_SHOWN]))
        return f"Settings from {self.path}." + (
            f" Of Flink's, not used here: {shown}{more}." if shown else ""
        )


@dataclass(frozen=True, slots=True)
class _Entry:
    key: str
    text: str
    line: int


def find_settings(chosen: Path | None, script: Path | None = None) -> SettingsFile | None:
    """The file that was asked for, or the one that is where one is looked for; ``None`` if there is none.

    ``script`` is what they are for: who wrote that may have written them.
    """
    if chosen is not None:
        return read_settings(_in_directory(chosen) if chosen.is_dir() else chosen)
    flink = os.environ.get("FLINK_CONF_DIR")
    here = Path(NAMES[0])
    usual = [here, home() / NAMES[0], *([Path(flink) / NAMES[1]] if flink else [])]
    found = next((path for path in usual if path.is_file()), None)
    if found == here:
        _refuse_strangers(found, script)
    return None if found is None else read_settings(found)


def _refuse_strangers(path: Path, script: Path | None) -> None:
    """Settings name programs to start and classes to load, and nobody has asked for these."""
    found = path.stat()
    trusted = {os.geteuid(), 0, *([script.stat().st_uid] if script is not None else [])}
    if found.st_uid in trusted and not found.st_mode & stat.S_IWOTH:
        return
    problem = "everybody can write to it" if found.st_uid in trusted else f"it belongs to user {found.st_uid}"
    raise ConfigError(
        f"there is a {path} in {Path.cwd()}, and {problem}: settings can run code, so it is not read "
        "unasked. If it is yours, set it right (chown, chmod go-w); if you trust it, use --config "
        f"{path}, and if not, --config with another",
        code=Code.FOREIGN_SETTINGS_FILE,
    )


def _in_directory(directory: Path) -> Path:
    found = [directory / name for name in NAMES if (directory / name).is_file()]
    if not found:
        raise ConfigError(
            f"there is no {', '.join(NAMES[:-1])} or {NAMES[-1]} in the directory {directory}",
            code=Code.SETTINGS_FILE,
        )
    return found[0]


def read_settings(path: Path) -> SettingsFile:
    """A file's settings, each checked; what is wrong is named with its line."""
    settings: dict[str, str] = {}
    found: dict[str, _Entry] = {}
    unused = []
    for entry in _entries(path):
        name = _checked(path, entry)
        if name in found:
            raise _twice(path, found[name], entry)
        found[name] = entry
        if _is_only_flinks(entry.key):
            unused.append(entry.key)
        else:
            settings[entry.key] = entry.text
    return SettingsFile(path, settings, tuple(unused))


def _checked(path: Path, entry: _Entry) -> str:
    """The newest name of a setting, whose value can be read."""
    try:
        option = find(entry.key)
        if option is None:
            return entry.key
        option.parse(entry.text)
        return option.key
    except ConfigError as error:
        raise ConfigError(f"{path}, line {entry.line}: {error}", code=error.code) from None


def _twice(path: Path, first: _Entry, second: _Entry) -> ConfigError:
    name = "" if first.key == second.key else f" as {first.key!r}"
    return ConfigError(
        f"{path}, line {second.line}: {second.key!r} is set in line {first.line} already{name}; which of the "
        "two is meant?"
    )


def _is_only_flinks(key: str) -> bool:
    return is_flinks(key) and not key.startswith(SPARKS) and find(key) is None


def _entries(path: Path) -> Iterator[_Entry]:
    """What stands in a file, with keys in full."""
    root = _parsed(path)
    if root is None or root.tag == f"{_TAG}null":
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(
            f"{path}, line {_line(root)}: settings are lines such as 'parallelism.default: 4'",
            code=Code.SETTINGS_FILE,
        )
    yield from _flat(path, root, "")


def _parsed(path: Path) -> yaml.Node | None:
    try:
        text = path.read_text(encoding="utf-8-sig")
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):  # a few of them can stand for more than there is memory
                raise ConfigError(
                    f"{path}, line {_line(event)}: write out what *{event.anchor} stands for",
                    code=Code.SETTINGS_FILE,
                )
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the settings in {path} cannot be read: {error}", code=Code.SETTINGS_FILE
        ) from None
    except yaml.MarkedYAMLError as error:
        at = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(
            f"{path}{at}: this is no YAML: {error.problem or error.context}", code=Code.SETTINGS_FILE
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(
            f"{path}: this is no YAML: {' '.join(str(error).split())}", code=Code.SETTINGS_FILE
        ) from None


def _flat(path: Path, node: yaml.MappingNode, before: str) -> Iterator[_Entry]:
    for name, value in node.value:
        if not isinstance(name, yaml.ScalarNode):
            raise ConfigError(
                f"{path}, line {_line(name)}: the name of a setting is text", code=Code.SETTINGS_FILE
            )
        key = before + name.value
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _flat(path, value, f"{key}.")
        else:
            yield _Entry(key, _text(path, key, value), _line(name))


def _text(path: Path, key: str, node: yaml.Node) -> str:
    if node.tag in _PLAIN:
        return str(node.value)
    if node.tag == f"{_TAG}seq" and all(item.tag in _PLAIN for item in node.value):
        return ",".join(item.value for item in node.value)
    if _is_only_flinks(key):
        return ""
    raise ConfigError(
        f"{path}, line {_line(node)}: {key!r} has no value that is text, a number or a list of them; give it "
        "one, or take the line out",
        code=Code.SETTINGS_FILE,
    )


def _line(where: Any) -> int:
    return int(where.start_mark.line) + 1
