"""The OpenAPI document, made of ``contract.json``: the calls, their parameters, the shapes of answers.

In a shape, a name with ``?`` may be absent, ``*`` stands for any name, ``a|b`` for one of these words, ``id``
for 32 hexadecimal digits.  Every field may be null: Flink's clients take that for absent.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from typing import Any

import penstock

_SIMPLE: dict[str, dict[str, Any]] = {
    "integer": {"type": "integer"},
    "number": {"anyOf": [{"type": "number"}, {"const": "NaN"}]},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "text": {"type": "string"},
    "id": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    "any": {},
}
_ERRORS = {
    "description": "refused, with the reason",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["errors"],
                "properties": {"errors": {"type": "array", "items": {"type": "string"}}},
            }
        }
    },
}


@cache
def calls() -> tuple[dict[str, Any], ...]:
    """The contract: method, path, tier, status, query and shape of each call."""
    text = resources.files("penstock.rest").joinpath("contract.json").read_text("utf-8")
    return tuple(json.loads(text)["calls"])


@cache
def document() -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for call in calls():
        paths.setdefault(call["path"], {})[call["method"].lower()] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock, in the words of Flink's REST API", "version": penstock.__version__},
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}],
        "paths": paths,
    }


def _operation(call: dict[str, Any]) -> dict[str, Any]:
    kind = "text/plain" if call["answer"] == "text" else "application/json"
    places = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", call["path"])
    ]
    asked = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in call["query"]]
    return {
        "operationId": f"{call['method'].lower()}{re.sub(r'[^A-Za-z]+', '_', call['path'])}".rstrip("_"),
        "tags": [call["path"].split("/")[1]],
        "parameters": [*places, *asked],
        "responses": {
            str(call["status"]): {
                "description": "as asked",
                "content": {kind: {"schema": schema(call["answer"])}},
            },
            "default": _ERRORS,
        },
    }


def schema(shape: Any) -> dict[str, Any]:
    """The JSON schema of a shape."""
    if isinstance(shape, list):
        return {"type": "array", "items": schema(shape[0])}
    if isinstance(shape, dict):
        if "*" in shape:
            return {"type": "object", "additionalProperties": _or_null(schema(shape["*"]))}
        return {
            "type": "object",
            "required": [name for name in shape if not name.endswith("?")],
            "properties": {name.rstrip("?"): _or_null(schema(part)) for name, part in shape.items()},
        }
    return _SIMPLE[shape] if shape in _SIMPLE else {"enum": shape.split("|")}


def _or_null(made: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [made, {"type": "null"}]} if made else made
