"""What a program asks for so that its functions find in the slots what they need."""

from __future__ import annotations

from dataclasses import replace

from penstock.core import options
from penstock.core.config import Configuration
from penstock.luggage.wishes import Archive, Requirements, Wishes, local_path


class PythonDependencies:
    """Base of ``StreamExecutionEnvironment``. Files are looked at when a job starts."""

    _configuration: Configuration
    _python = Wishes()

    def add_python_file(self, file_path: str) -> None:
        """Put a module, a directory or a zip file (``.zip``, ``.whl``, ``.egg``) on the functions' path."""
        self._python = replace(self._python, files=(str(local_path(file_path)), *self._python.files))

    def add_python_archive(self, archive_path: str, target_dir: str | None = None) -> None:
        """Unpack an archive in the functions' working directory: to ``target_dir``, else to its own name."""
        added = Archive.of(archive_path, target_dir)
        others = tuple(one for one in self._python.archives if one.target != added.target)
        self._python = replace(self._python, archives=(*others, added))

    def set_python_requirements(
        self, requirements_file_path: str, requirements_cache_dir: str | None = None
    ) -> None:
        """Let pip install packages for the functions; with a directory of packages, from there alone."""
        wanted = Requirements.of(requirements_file_path, requirements_cache_dir)
        self._python = replace(self._python, requirements=wanted)

    def set_python_executable(self, python_exec: str) -> None:
        """The interpreter of the functions; one in an archive is named from the archive's target on."""
        self._configuration.set(options.PYTHON_EXECUTABLE, python_exec)
