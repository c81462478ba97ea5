"""Which pods a user sees by name, and which are explained to them."""

from typing import Final

import pytest

from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server.cluster_status.viewer import Viewer
from tests.fakes.objects import PodBuilder, a_pod

ADMINISTRATOR: Final = Principal(user="alice", name="alice", is_administrator=True)
BOB: Final = Principal(user="bob", name="bob")
ALICES: Final = a_pod().of("alice")
BOBS: Final = a_pod().of("bob")
NOBODYS: Final = a_pod()


@pytest.mark.parametrize(
    ("who", "visibility", "pod", "may_name", "may_ask"),
    [
        (BOB, "load", BOBS, True, True),
        (BOB, "load", ALICES, False, False),
        (BOB, "load", NOBODYS, False, True),
        (BOB, "names", ALICES, True, True),
        (BOB, "names", NOBODYS, True, True),
        (ADMINISTRATOR, "load", BOBS, True, True),
        (ADMINISTRATOR, "load", NOBODYS, True, True),
    ],
    ids=[
        "one's own",
        "another's",
        "nobody's",
        "another's, where names are shown",
        "nobody's, where names are shown",
        "another's, for an administrator",
        "nobody's, for an administrator",
    ],
)
def test_a_pod_is_named_to_its_owner_and_to_users_whom_the_policy_allows(
    who: Principal, visibility: Visibility, pod: PodBuilder, *, may_name: bool, may_ask: bool
) -> None:
    viewer = Viewer(who, visibility)
    assert (viewer.may_name(pod.obj), viewer.may_ask_about(pod.obj)) == (may_name, may_ask)


def test_an_empty_owner_counts_as_no_owner() -> None:
    assert Viewer.user_of(a_pod().of("").obj) is None
    assert Viewer.user_of(ALICES.obj) == "alice"
