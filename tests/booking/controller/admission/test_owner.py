"""Whose a new pod is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.controller.admission.owner import Ownership, PodNamespace, owner
from cluster import names
from cluster.decide.identity import Rule, users_by_label
from cluster.objects.meta import Meta
from tests.booking.controller.admission.fake_cluster_view import CREATORS, HUB, JOBS, OURSELVES

LABEL = "alice-40kth-2ese"
OWNED = PodNamespace(name="lab", owner="alice")


def whose(creator: str, namespace: PodNamespace | None = None, **meta: dict[str, str]) -> Ownership:
    where = namespace or PodNamespace(name="lab")
    return owner(creator, Meta(**meta), namespace=where, creators=CREATORS, known=lambda: KNOWN)


KNOWN = users_by_label(["alice@kth.se", "a@b", "a-40b"], [Rule(source="jupyterhub", match=".+")])


class TestPodsOfAHub:
    def test_the_annotation_names_the_owner(self) -> None:
        assert whose(HUB, annotations={names.HUB_USER: "bob"}).user == "bob"

    def test_the_annotations_capital_letters_do_not_matter(self) -> None:
        assert whose(HUB, annotations={names.HUB_USER: "MYoung"}).user == "myoung"

    def test_without_an_annotation_the_label_is_looked_up(self) -> None:
        assert whose(HUB, labels={names.HUB_USER: LABEL}).user == "alice@kth.se"

    def test_the_annotation_takes_precedence_over_the_label(self) -> None:
        both = whose(HUB, annotations={names.HUB_USER: "bob"}, labels={names.HUB_USER: LABEL})
        assert both.user == "bob"

    def test_an_empty_annotation_is_not_replaced_by_the_label(self) -> None:
        empty = whose(HUB, annotations={names.HUB_USER: ""}, labels={names.HUB_USER: LABEL})
        assert empty == Ownership(why=f"The annotation {names.HUB_USER} names no user: ''")

    def test_a_label_that_may_mean_two_users_gives_no_owner_and_is_reported(self) -> None:
        found = whose(HUB, labels={names.HUB_USER: "a-40b"})
        assert found.user is None
        assert found.why == (
            f"The label {names.HUB_USER} may mean a-40b or a@b, and an annotation of that name is missing"
        )

    def test_a_label_of_no_known_user_gives_no_owner(self) -> None:
        found = whose(HUB, labels={names.HUB_USER: "nobody-i-know"})
        assert found == Ownership(why=f"The label {names.HUB_USER} is of no known user: 'nobody-i-know'")

    def test_a_pod_with_neither_has_no_owner_even_in_a_namespace_with_one(self) -> None:
        found = whose(HUB, OWNED)
        assert found == Ownership(why=f"It has neither annotation nor label {names.HUB_USER}")


class TestPodsOfControllers:
    def test_pods_of_controllers_belong_to_the_owner_of_the_namespace(self) -> None:
        assert whose(JOBS, OWNED).user == "alice"

    def test_pods_of_controllers_in_a_namespace_without_an_owner_have_none_and_the_cure_is_reported(
        self,
    ) -> None:
        found = whose(JOBS)
        assert found.user is None
        assert f"no administrator has set {names.OWNER} on namespace lab" in found.why


class TestL7:
    """Law L7: what a pod claims about itself is ignored unless its creator is trusted."""

    @pytest.mark.parametrize(("creator", "user"), [("bob", "bob"), (JOBS, None), ("system:admin", None)])
    def test_annotation_and_label_of_others_are_never_read(self, creator: str, user: str | None) -> None:
        forged = {names.HUB_USER: LABEL, names.USER: "alice"}
        assert whose(creator, annotations=forged, labels=forged).user == user

    @pytest.mark.parametrize("creator", ["bob", HUB, OURSELVES, "bob@example.org", "system:admin"])
    def test_pods_of_other_people_do_not_go_to_the_owner_of_the_namespace(self, creator: str) -> None:
        assert whose(creator, OWNED).user != "alice"

    def test_pods_that_we_create_keep_their_user(self) -> None:
        assert whose(OURSELVES, OWNED, annotations={names.USER: "bob"}).user == "bob"
        assert whose(OURSELVES, OWNED).user is None


@given(
    raw=st.text(max_size=300) | st.text("\0", min_size=80),
    name=st.text(max_size=63),
    kind=st.sampled_from(["hub", "label", "account"]),
)
def test_the_reason_is_short_for_names_of_any_length(raw: str, name: str, kind: str) -> None:
    sources = {
        "hub": ("annotations", HUB),
        "label": ("labels", HUB),
        "account": ("labels", f"system:serviceaccount:{raw}"),
    }
    part, creator = sources[kind]
    assert len(whose(creator, PodNamespace(name=name), **{part: {names.HUB_USER: raw}}).why) <= 163
