"""What the webhook sees of the cluster."""

import msgspec

from booking.admission.owner import Place
from booking.admission.sight import Sight
from cluster import names
from cluster.decide.identity import Rule
from cluster.fake.clock import FakeClock
from cluster.objects.namespaces import Namespace
from cluster.picture import Picture
from tests.fakes.objects import EPOCH, a_booking, a_pod


def test_a_namespace_is_as_administrators_wrote_it() -> None:
    picture = Picture(FakeClock(EPOCH))
    sight = Sight(picture)
    assert sight.place("lab") == Place(name="lab")
    made = {"name": "lab", "annotations": {names.OWNER: "alice", names.NEVER_EVICT: "true"}}
    picture.apply_namespace(msgspec.convert({"metadata": made}, Namespace))
    assert sight.place("lab") == Place(name="lab", owner="alice", is_spared=True)


def test_labels_are_of_those_who_book_and_of_those_whom_the_settings_name() -> None:
    picture = Picture(FakeClock(EPOCH))
    anybody = (Rule(source="jupyterhub", match=".+"),)
    sight = Sight(picture, rules=anybody, known=["bob@b"])
    assert sight.users_by_label()["bob-40b"] == {"bob@b"}
    assert "alice-40a" not in sight.users_by_label()
    picture.apply_booking(a_booking(user="alice@a"))
    assert sight.users_by_label()["alice-40a"] == {"alice@a"}
    assert sight.users_by_label()["bob-40b"] == {"bob@b"}
    picture.remove_booking(a_booking(user="alice@a"))
    assert "alice-40a" not in sight.users_by_label()


def test_a_new_pod_stands_among_its_users_pods() -> None:
    picture = Picture(FakeClock(EPOCH))
    booking = a_booking()
    picture.apply_booking(booking)
    picture.apply_booking(a_booking("b-2", user="bob"))
    first = a_pod("first").of("alice").asks(1).created(EPOCH).obj
    picture.apply_pod(first)
    new = a_pod("~").of("alice").asks(1).obj
    beside = Sight(picture).beside(new, EPOCH)
    assert beside.bookings == (booking,)
    assert beside.pods == {first.metadata.uid: first, new.metadata.uid: new}
    assert beside.covered == {first.metadata.uid: booking}
