"""Formats of records. PyFlink's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.elsewhere import found_in

if not TYPE_CHECKING:  # else a typing error in any name would pass for one of these
    __getattr__ = found_in(__name__, {}, below="avro csv json")
