"""Which user a name belongs to."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.identity import DEFAULT_RULES, Rule, Source, is_account, user_of, users_by_label
from cluster.decide.jupyterhub_labels import labels_of

ANYBODY = (Rule(source="jupyterhub", match=".+", fold=False),)


@pytest.mark.parametrize(
    ("source", "raw", "user"),
    [
        ("kubernetes", "alice", "alice"),
        ("jupyterhub", "alice", "alice"),
        ("oidc", "alice", "alice"),
        ("oidc", "system:admin", None),
        ("kubernetes", "alice\n", None),
        ("kubernetes", "system:serviceaccount:lab:default", None),
        ("kubernetes", "system:admin", None),
        ("kubernetes", "", None),
    ],
)
def test_by_default_people_are_users_by_their_own_name_and_machines_are_not(
    source: Source, raw: str, user: str | None
) -> None:
    assert user_of(source, raw, DEFAULT_RULES) == user


@pytest.mark.parametrize("source", get_args(Source))
@pytest.mark.parametrize("raw", ["alice@example.org", "oidc:alice@example.org", "@", "a@b@c"])
def test_an_email_address_is_no_user_until_a_rule_turns_it_into_an_id(source: Source, raw: str) -> None:
    """User ids are written in objects of the cluster, metrics and others' answers; addresses may not be."""
    assert user_of(source, raw) is None
    assert user_of(source, raw, [Rule(source=source, match=".+", user="alice")]) == "alice"


def test_the_first_rule_that_matches_the_whole_name_counts() -> None:
    rules = (
        Rule(source="kubernetes", match=r"oidc:(\w+)@kth\.se", user=r"\1"),
        Rule(source="kubernetes", match=r"oidc:(.*)", user=r"guest-\1"),
    )
    assert user_of("kubernetes", "oidc:alice@kth.se", rules) == "alice"
    assert user_of("kubernetes", "oidc:alice@kth.se.evil", rules) == "guest-alice@kth.se.evil"
    assert user_of("kubernetes", "alice", rules) is None


def test_a_rule_of_one_source_does_not_apply_to_another() -> None:
    rules = (Rule(source="jupyterhub", match=".+"),)
    assert user_of("kubernetes", "alice", rules) is None


@pytest.mark.parametrize(
    ("source", "raw", "fold", "user"),
    [
        ("jupyterhub", "MYoung", None, "myoung"),
        ("jupyterhub", "MYoung", False, "MYoung"),
        ("maia", "Alice@Example.org", None, "alice@example.org"),
        ("oidc", "Alice@Example.org", None, "alice@example.org"),
        ("oidc", "Alice@Example.org", False, "Alice@Example.org"),
        ("oidc", "MYoung", None, "MYoung"),
        ("oidc", "MYoung", True, "myoung"),
        ("kubernetes", "MYoung", True, "myoung"),
    ],
)
def test_a_rule_folds_names_of_hubs_and_addresses_unless_it_says_otherwise(
    source: Source, raw: str, *, fold: bool | None, user: str
) -> None:
    assert user_of(source, raw, [Rule(source=source, match=".+", fold=fold)]) == user


def test_a_folded_name_matches_however_the_rule_is_capitalised_and_no_letter_that_only_resembles() -> None:
    rules = [Rule(source="jupyterhub", match="Boss", user="BOSS")]
    assert user_of("jupyterhub", "bOSS", rules) == "BOSS"
    assert user_of("jupyterhub", "bo\N{LATIN SMALL LETTER LONG S}s", rules) is None


def test_a_rule_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ValueError, match=r"The identity rule '\(' is not a regular expression"):
        Rule(source="kubernetes", match="(")


@pytest.mark.parametrize("user", [r"\3", r"\g<nope>", "\\"])
def test_a_rule_whose_user_cannot_be_filled_in_is_refused(user: str) -> None:
    with pytest.raises(
        ValueError, match=r"The user .* of the identity rule 'oidc:\(\.\+\)' cannot be filled in"
    ):
        Rule(source="kubernetes", match="oidc:(.+)", user=user)


@pytest.mark.parametrize(
    ("raw", "is_program"),
    [
        ("system:serviceaccount:kube-system:job-controller", True),
        ("system:serviceaccount:lab:default", True),
        ("system:kube-controller-manager", True),
        ("system:admin", False),
        ("alice", False),
        ("", False),
    ],
)
def test_controllers_are_recognised_as_programs_and_people_are_not(raw: str, *, is_program: bool) -> None:
    assert is_account(raw) == is_program


class TestLabels:
    """JupyterHub's labels, from which nobody can read a name."""

    def test_each_encoding_of_a_known_name_leads_to_its_user(self) -> None:
        known = users_by_label(["alice@kth.se", "bob"], ANYBODY)
        assert known["alice-40kth-2ese"] == known["alice-kth-se---5fc1f5b8"] == {"alice@kth.se"}
        assert known["bob"] == {"bob"}
        assert "alice" not in known

    def test_two_people_with_the_same_label_are_both_named(self) -> None:
        assert users_by_label(["a@b", "a-40b"], ANYBODY)["a-40b"] == {"a@b", "a-40b"}

    def test_two_names_of_one_person_are_one_user(self) -> None:
        rules = (Rule(source="jupyterhub", match=r"(\w+)(@kth\.se)?", user=r"\1"),)
        known = users_by_label(["alice", "alice@kth.se"], rules)
        assert known["alice"] == known["alice-40kth-2ese"] == {"alice"}

    def test_a_name_that_no_rule_maps_has_no_label(self) -> None:
        assert users_by_label(["alice"], (Rule(source="kubernetes", match=".+"),)) == {}

    def test_the_label_of_a_hub_that_lower_cases_names_leads_to_the_user_who_booked(self) -> None:
        assert users_by_label(["M.Young"])["m.young"] == {"m.young"}
        assert users_by_label(["M.Young"])["m-2eyoung"] == {"m.young"}

    @given(st.sets(st.text("ab@-A.", min_size=1, max_size=8), max_size=6))
    def test_a_label_names_exactly_the_people_who_may_have_it(self, known: set[str]) -> None:
        found = users_by_label(known, ANYBODY)
        for label, users in found.items():
            assert users == {name for name in known if label in labels_of(name)}
        assert found.keys() == {label for name in known for label in labels_of(name)}
