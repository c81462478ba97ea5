"""Bookings: a custom resource with a status of its own, of which two parts of ours write one half each."""

from typing import Any, Final

import pytest

from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking
from tests.contracts.kube_ground import KubeGround, counted

NAME: Final = "b-contract"
SPEC: Final[dict[str, Any]] = {
    "user": "alice",
    "model": "NVIDIA-A100-SXM4-80GB",
    "count": 2,
    "start": "2026-03-02T09:00:00Z",
    "end": "2026-03-04T09:00:00Z",
    "topology": "single-node",
}
ENDING: Final = {"ending": ["uid-1"], "back": "without-gpu"}


class KubeBookings(KubeGround):
    @pytest.fixture
    def booking(self, kube: Kube) -> Booking:
        return kube.create(BOOKINGS, {"metadata": {"name": NAME}, "spec": SPEC})

    def test_a_bookings_status_is_written_through_its_subresource(self, kube: Kube, booking: Booking) -> None:
        assert kube.patch(BOOKINGS, NAME, {"status": ENDING}) == booking
        after = kube.patch(BOOKINGS, NAME, {"status": ENDING}, subresource="status")
        assert (after.status.ending, after.status.back) == (("uid-1",), "without-gpu")
        assert after.spec == booking.spec
        assert kube.get(BOOKINGS, NAME) == after

    def test_the_status_subresource_of_a_booking_changes_nothing_else(
        self, kube: Kube, booking: Booking
    ) -> None:
        patch = {"metadata": {"annotations": {"x": "1"}}, "spec": {"count": 1}, "status": ENDING}
        after = kube.patch(BOOKINGS, NAME, patch, subresource="status")
        assert after.spec == booking.spec
        assert not after.metadata.annotations
        assert after.status.back == "without-gpu"

    def test_a_bookings_generation_counts_changes_of_its_spec(self, kube: Kube, booking: Booking) -> None:
        kind = counted(BOOKINGS)

        def generation() -> int | None:
            return kube.get(kind, booking.name).metadata.generation

        assert generation() == 1
        kube.patch(BOOKINGS, NAME, {"metadata": {"labels": {"x": "1"}}})
        kube.patch(BOOKINGS, NAME, {"status": ENDING}, subresource="status")
        assert generation() == 1
        kube.patch(BOOKINGS, NAME, {"spec": {"count": 1}})
        assert generation() == 2

    def test_a_bookings_name_is_taken_until_it_is_deleted(self, kube: Kube, booking: Booking) -> None:
        with pytest.raises(Conflict) as caught:
            kube.create(BOOKINGS, {"metadata": {"name": NAME}, "spec": SPEC})
        assert caught.value.reason == "AlreadyExists"
        kube.delete(BOOKINGS, NAME, uid=booking.metadata.uid)
        with pytest.raises(NotFound):
            kube.get(BOOKINGS, NAME)
