"""Which of two states of one object is the newer."""

import pytest

from cluster.decide.ledger.resource_versions import is_older, version_is_older
from cluster.objects.meta import Meta


@pytest.mark.parametrize(
    ("version", "known", "older"),
    [
        ("1", "2", True),
        ("2", "1", False),
        ("2", "2", False),
        ("9", "10", True),
        ("10", "9", False),
        ("9" * 30, "1" + "0" * 30, True),
        ("", "1", False),
        ("1", "", False),
        ("a", "b", False),
        ("1", "b", False),
        ("a", "1", False),
        ("-1", "1", False),
    ],
)
def test_versions_are_compared_as_numbers_and_not_at_all_where_one_is_no_number(
    *, version: str, known: str, older: bool
) -> None:
    assert version_is_older(version, known) is older


@pytest.mark.parametrize(
    ("uid", "version", "older"),
    [("u", "1", True), ("u", "2", False), ("u", "3", False), ("another", "1", False)],
)
def test_only_states_of_the_same_object_are_compared(*, uid: str, version: str, older: bool) -> None:
    assert is_older(Meta(uid=uid, resource_version=version), Meta(uid="u", resource_version="2")) is older
