"""Records and tables of other libraries, which show names far from their values: what is hidden stays so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from penstock.core.secret_fields import SecretFields
from penstock.core.secret_text import without_values

SECRET = "hunter2"
NAMED = {"user": "ann", "password": SECRET}
KIND = [("user", "U9"), ("inner", [("password", "U9")])]
STRUCTURED = np.array([("ann", (SECRET,))], dtype=KIND)
COLUMNS = {"user": ["ann"], "password": [SECRET]}

RECORDS: dict[str, Any] = {
    "a row of pandas": pd.Series(NAMED),
    "a frame of pandas": pd.DataFrame(COLUMNS),
    "a frame of polars": pl.DataFrame(COLUMNS),
    "structs of polars": pl.Series([NAMED]),
    "a record of numpy": STRUCTURED[0],
    "records of numpy": STRUCTURED,
    "a scalar of Arrow": pa.scalar(NAMED),
    "structs of Arrow": pa.array([NAMED]),
    "chunks of Arrow": pa.chunked_array([pa.array([NAMED])]),
    "a batch of Arrow": pa.RecordBatch.from_pydict(COLUMNS),
    "a table of Arrow": pa.table(COLUMNS),
}


@pytest.mark.parametrize("what", RECORDS)
def test_fields_of_tables_are_hidden_by_their_names(what: str) -> None:
    for record in (RECORDS[what], ("with", [RECORDS[what]])):
        text = SecretFields().text(record, 1000)
        assert SECRET not in text and "***" in text and "ann" in text


@pytest.mark.parametrize("what", RECORDS)
def test_tables_that_hide_nothing_are_shown_as_they_show_themselves(what: str) -> None:
    assert SecretFields(["nothing"]).text(RECORDS[what], 10_000) == repr(RECORDS[what])


def test_odd_labels_and_much_data_do_no_harm() -> None:
    odd = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    assert SecretFields().text(odd, 1000) == repr(odd)
    large = pd.DataFrame({"password": [SECRET] * 100_000})
    assert SECRET not in SecretFields().text(large, 100_000)


def test_elements_of_xml_are_fields() -> None:
    hides = SecretFields().hides
    text = '<user><name>ann</name><x:password kind="new">hunter2</x:password><n>1 < 2</n></user>'
    left = without_values(text, hides)
    assert left == '<user><name>ann</name><x:password kind="new">***</x:password><n>1 < 2</n></user>'
    assert without_values(left, hides) == left
    assert SECRET not in SecretFields().text({"body": text}, 1000)
