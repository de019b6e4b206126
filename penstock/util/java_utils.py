"""PyFlink's ``util.java_utils``: the settings behind an environment, and a refusal for the rest.

Programs import these without calling them, too, so the names are here.
"""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.core.config import Configuration
from penstock.core.no_java import JavaEnvironment, refuse_java

__all__ = ["get_j_env_configuration"]


def get_j_env_configuration(j_env: JavaEnvironment) -> Configuration:
    """The settings of an environment, for ``Configuration(j_configuration=...)``: the same, not a copy.

    The 1.x way; ``env.configure(Configuration())`` and the environment's own setters need no Java.
    """
    return j_env.configuration


def to_jarray(j_type: Any, arr: Any) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("to_jarray()")


def load_java_class(class_name: str) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("load_java_class()")


def invoke_method(
    obj: Any, object_type: Any, method_name: str, args: Any = None, arg_types: Any = None
) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("invoke_method()")


def is_instance_of(java_object: Any, java_class: Any) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("is_instance_of()")


def get_field_value(java_obj: Any, field_name: str) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("get_field_value()")


def get_field(cls: Any, field_name: str) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("get_field()")


def add_jars_to_context_class_loader(jar_urls: Any) -> NoReturn:
    """Refused: there is no Java."""
    refuse_java("add_jars_to_context_class_loader()")
