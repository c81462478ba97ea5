"""Whose pods are spared after another one has used too much of a GPU, and left."""

from datetime import timedelta

import msgspec

from booking.controller.reclaimer.holds.over_users import FIRST_PAUSE, Replacements
from cluster.objects.meta import Owner
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, a_pod


def replica(name: str, *, at: float, controller: str | None = "uid-set") -> Pod:
    """A pod that a controller has created so many seconds after the beginning."""
    pod = a_pod(name).obj
    owners = (Owner(kind="ReplicaSet", name="set", uid=controller, controller=True),) if controller else ()
    created = EPOCH + timedelta(seconds=at)
    meta = msgspec.structs.replace(pod.metadata, creation_timestamp=created, owner_references=owners)
    return msgspec.structs.replace(pod, metadata=meta)


def test_what_a_controller_creates_after_a_loss_is_spared_twice_as_long_each_time() -> None:
    known, now = Replacements(), 0.0
    assert known.spared_for(replica("first", at=0), now) == 0
    known.note(replica("first", at=0), EPOCH, now)
    for pause in (FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE):
        again = replica("again", at=now + 1)
        assert known.spared_for(again, now) == pause
        now += pause
        assert known.spared_for(again, now) == 0
        known.note(again, EPOCH + timedelta(seconds=now), now)


def test_pods_that_were_there_before_and_pods_of_others_are_not_spared() -> None:
    known = Replacements()
    known.note(replica("a", at=0), EPOCH + timedelta(seconds=100), 100.0)
    for other in (
        replica("b", at=50),
        replica("c", at=200, controller="uid-other"),
        replica("d", at=200, controller=None),
    ):
        assert known.spared_for(other, 100.0) == 0
