"""Packages made on the spot: wheels, one with a compiled module, and a few in a directory."""

from __future__ import annotations

import base64
import hashlib
import sysconfig
import zipfile
from pathlib import Path

import markupsafe._speedups

COMPILED = Path(markupsafe._speedups.__file__)
"""A small compiled module; in any package its name is ``_speedups``."""
ESCAPED = "from {package}._speedups import _escape_inner as escaped\n"
_PLATFORM = sysconfig.get_platform().replace("-", "_").replace(".", "_")
HERE = f"cp{sysconfig.get_config_var('py_version_nodot')}-cp{sysconfig.get_config_var('py_version_nodot')}"


def wheel(directory: Path, name: str, files: dict[str, bytes], version: str = "1.0") -> Path:
    """A wheel of these files; with a compiled one among them, it is for this platform alone."""
    compiled = any(".so" in path for path in files)
    tag = f"{HERE}-{_PLATFORM}" if compiled else "py3-none-any"
    info = f"{name}-{version}.dist-info"
    pure = "false" if compiled else "true"
    known = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: {pure}\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{path},{_hash(data)},{len(data)}\n" for path, data in known.items())
    known[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in known.items():
            archive.writestr(member, data)
    return path


def _hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def compiled_files(package: str) -> dict[str, bytes]:
    """A package with a compiled module."""
    return {
        f"{package}/__init__.py": ESCAPED.format(package=package).encode(),
        f"{package}/{COMPILED.name}": COMPILED.read_bytes(),
    }


def write_files(root: Path, files: dict[str, bytes | str]) -> None:
    """Files below a directory."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())


def archive(path: Path, files: dict[str, bytes | str]) -> Path:
    """A zip file."""
    with zipfile.ZipFile(path, "w") as made:
        for name, data in files.items():
            made.writestr(name, data)
    return path
