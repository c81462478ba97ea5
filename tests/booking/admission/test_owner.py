"""Whose a new pod is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.admission.owner import Ownership, PodNamespace, owner
from cluster import names
from cluster.decide.identity import Rule, users_by_label
from cluster.objects.meta import Meta
from tests.booking.admission.fake_cluster_view import CREATORS, HUB, JOBS, OURSELVES

LABEL = "alice-40kth-2ese"
OWNED = PodNamespace(name="lab", owner="alice")


def whose(creator: str, namespace: PodNamespace | None = None, **meta: dict[str, str]) -> Ownership:
    where = namespace or PodNamespace(name="lab")
    return owner(creator, Meta(**meta), namespace=where, creators=CREATORS, known=lambda: KNOWN)


KNOWN = users_by_label(["alice@kth.se", "a@b", "a-40b"], [Rule(source="jupyterhub", match=".+")])


class TestPodsOfAHub:
    def test_the_annotation_is_the_name(self) -> None:
        assert whose(HUB, annotations={names.HUB_USER: "bob"}).user == "bob"

    def test_without_one_the_label_is_looked_up(self) -> None:
        assert whose(HUB, labels={names.HUB_USER: LABEL}).user == "alice@kth.se"

    def test_the_annotation_goes_before_the_label(self) -> None:
        both = whose(HUB, annotations={names.HUB_USER: "bob"}, labels={names.HUB_USER: LABEL})
        assert both.user == "bob"

    def test_an_annotation_that_names_nobody_is_not_helped_by_the_label(self) -> None:
        empty = whose(HUB, annotations={names.HUB_USER: ""}, labels={names.HUB_USER: LABEL})
        assert empty == Ownership(why=f"The annotation {names.HUB_USER} names no user: ''")

    def test_a_label_of_two_people_is_nobodys_and_that_is_reported(self) -> None:
        found = whose(HUB, labels={names.HUB_USER: "a-40b"})
        assert found.user is None
        assert found.why == (
            f"The label {names.HUB_USER} may mean a-40b or a@b, and an annotation of that name is missing"
        )

    def test_a_label_that_nobody_has_is_nobodys(self) -> None:
        found = whose(HUB, labels={names.HUB_USER: "nobody-i-know"})
        assert found == Ownership(why=f"The label {names.HUB_USER} is of no known user: 'nobody-i-know'")

    def test_a_pod_with_neither_is_nobodys_under_any_owner_of_the_namespace(self) -> None:
        found = whose(HUB, OWNED)
        assert found == Ownership(why=f"It has neither annotation nor label {names.HUB_USER}")


class TestPodsOfControllers:
    def test_they_are_the_namespaces_owners(self) -> None:
        assert whose(JOBS, OWNED).user == "alice"

    def test_without_an_owner_they_are_nobodys_and_what_would_change_that_is_reported(self) -> None:
        found = whose(JOBS)
        assert found.user is None
        assert f"no administrator has set {names.OWNER} on namespace lab" in found.why


class TestL7:
    """Law L7: what a pod says of itself counts for nothing where its creator is not trusted."""

    @pytest.mark.parametrize(("creator", "user"), [("bob", "bob"), (JOBS, None), ("system:admin", None)])
    def test_annotation_and_label_of_others_are_never_read(self, creator: str, user: str | None) -> None:
        forged = {names.HUB_USER: LABEL, names.USER: "alice"}
        assert whose(creator, annotations=forged, labels=forged).user == user

    @pytest.mark.parametrize("creator", ["bob", HUB, OURSELVES])
    def test_the_namespaces_owner_gets_nobody_elses_pods(self, creator: str) -> None:
        assert whose(creator, OWNED).user != "alice"

    def test_our_own_pods_keep_their_user(self) -> None:
        assert whose(OURSELVES, OWNED, annotations={names.USER: "bob"}).user == "bob"
        assert whose(OURSELVES, OWNED).user is None


@given(
    raw=st.text(max_size=300) | st.text("\0", min_size=80),
    name=st.text(max_size=63),
    kind=st.sampled_from(["hub", "label", "account"]),
)
def test_why_is_short_whatever_somebody_calls_themselves(raw: str, name: str, kind: str) -> None:
    said = {
        "hub": ("annotations", HUB),
        "label": ("labels", HUB),
        "account": ("labels", f"system:serviceaccount:{raw}"),
    }
    part, creator = said[kind]
    assert len(whose(creator, PodNamespace(name=name), **{part: {names.HUB_USER: raw}}).why) <= 163
