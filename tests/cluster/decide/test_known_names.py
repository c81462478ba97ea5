"""By which names of each source a user is known."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.identity import DEFAULT_RULES, Rule, Source, user_of
from cluster.decide.jupyterhub_labels import labels_of
from cluster.decide.known_names import KnownAs, known_as


def of(source: Source, user: str, *rules: Rule, seen: tuple[str, ...] = ()) -> KnownAs:
    return next(each for each in known_as(user, seen, rules or DEFAULT_RULES) if each.source == source)


def test_by_default_one_name_is_known_to_every_source_and_to_hubs_in_all_encodings() -> None:
    assert of("kubernetes", "a.young").names == of("oidc", "a.young").names == ("a.young",)
    hub = of("jupyterhub", "a.young")
    assert (hub.names, hub.any_case, set(hub.labels)) == (("a.young",), True, set(labels_of("a.young")))
    assert of("maia", "a.young").names == ()


def test_a_name_with_capitals_is_another_users_to_a_hub_until_a_rule_folds_it() -> None:
    hub = of("jupyterhub", "MYoung", seen=("MYoung",))
    assert (hub.names, hub.mistaken_for) == ((), "myoung")
    folded = (Rule(source="oidc", match=".+", fold=True), *DEFAULT_RULES)
    user = user_of("oidc", "MYoung", folded)
    assert user == user_of("jupyterhub", "myoung", folded) == "myoung"
    assert of("oidc", "myoung", *folded, seen=("MYoung",)).names == ("myoung",)
    assert of("oidc", "myoung", *folded).any_case
    assert of("jupyterhub", "myoung", *folded).mistaken_for is None


@pytest.mark.parametrize(
    ("match", "user", "name"),
    [
        (r"oidc:(.+)", r"\1", "oidc:alice"),
        (r"system:serviceaccount:research:(.+)", r"\g<1>", "system:serviceaccount:research:alice"),
        (r"(?P<who>[^@(]+)@kth[.]se", r"\g<who>", "alice@kth.se"),
        (r"(?:alice)", "alice", None),
        (r"alice-of-lab", "alice", "alice-of-lab"),
        (r"(\w+)(@kth\.se)?", r"\1", None),
        (r"((\w+)-staff)", r"\2", None),
        (r"(.)(.*)", r"\1\2", None),
    ],
)
def test_a_rule_is_read_backwards_where_one_name_follows_and_shown_where_none_does(
    match: str, user: str, name: str | None
) -> None:
    found = of("kubernetes", "alice", Rule(source="kubernetes", match=match, user=user))
    assert found.patterns == ((match,) if name is None else ())
    if name is not None:
        assert found.names == (name,)


def test_a_rule_for_somebody_else_gives_no_name() -> None:
    rules = (
        Rule(source="oidc", match=r"guest:(.+)", user=r"guest-\1"),
        Rule(source="oidc", match="bob|b", user="bob"),
    )
    assert of("oidc", "alice", *rules) == KnownAs(source="oidc")


@given(user=st.text("abA@.-", min_size=1, max_size=6), fold=st.booleans() | st.none())
def test_every_name_that_is_given_is_the_users(user: str, *, fold: bool | None) -> None:
    rules = (
        Rule(source="jupyterhub", match=r"hub-(.+)", user=r"\1", fold=fold),
        Rule(source="jupyterhub", match=r"[^@]+", fold=fold),
        *DEFAULT_RULES,
    )
    for found in known_as(user, (user.lower(), user.upper()), rules):
        assert all(user_of(found.source, raw, rules) == user for raw in found.names)
