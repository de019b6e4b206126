"""Names of jobs and of their directories."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.job_directory import job_directory
from penstock.core.errors import ConfigError
from penstock.core.job import JobID, normal_name
from penstock.snapshot.paths import problem_with

NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=300)


@given(NAMES)
def test_a_directory_is_a_plain_short_name(name: str) -> None:
    directory = job_directory(name)
    assert directory.isascii() and len(directory) < 80
    assert problem_with(directory) is None and "/" not in directory
    assert directory[0] not in ".-"


@given(NAMES, NAMES)
def test_two_names_have_two_directories_whatever_the_case_of_letters(one: str, other: str) -> None:
    same = normal_name(one) == normal_name(other)
    assert (job_directory(one).lower() == job_directory(other).lower()) == same
    assert (JobID.of_name(one) == JobID.of_name(other)) == same


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("orders", "orders"),
        ("orders (EU)", "orders-EU"),
        ("Größe", "Groe"),
        ("café au lait", "cafe-au-lait"),
        ("訂單", "job"),
        ("..", "job"),
        ("", "job"),
        ("x" * 500, "x" * 60),
    ],
)
def test_what_can_be_read_of_a_name_is_there(name: str, readable: str) -> None:
    assert job_directory(name) == f"{readable}-{JobID.of_name(name).hex[:12]}"


def test_the_same_letters_in_another_form_are_the_same_name() -> None:
    """A name from a file's name on one system, typed on another."""
    composed, apart = unicodedata.normalize("NFC", "café"), unicodedata.normalize("NFD", "café")
    assert composed != apart
    assert job_directory(composed) == job_directory(apart)
    assert JobID.of_name(composed) == JobID.of_name(apart)
    assert job_directory("①") != job_directory("1"), "what only looks alike is another name"


def test_half_a_character_is_no_name() -> None:
    with pytest.raises(ConfigError, match="no valid Unicode text"):
        normal_name("orders\udcff")
