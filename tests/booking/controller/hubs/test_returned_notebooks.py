"""Which notebooks a hub may not lead to: those that came back and are ready."""

from typing import Any

from booking.controller.hubs.returned_notebooks import ReturnedNotebooks
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.objects.meta import Meta
from cluster.objects.notebooks import Notebook, NotebookStatus
from cluster.objects.pods import Condition


def a_notebook(
    uid: str = "new", *, address: str | None = "10.0.0.2", ready: str = "True", origin: str | None = "old"
) -> Notebook:
    annotations = {names.RECREATED_FROM: origin} if origin else {}
    ready_condition = Condition(type="Ready", status=ready)
    return Notebook(
        metadata=Meta(name="jupyter-alice", namespace="hub", uid=uid, annotations=annotations),
        status=NotebookStatus(pod_ip=address, conditions=(Condition(type="Other"), ready_condition)),
    )


def waiting(*notebooks: Notebook, **_: Any) -> list[tuple[str, str]]:
    returned = ReturnedNotebooks(FakeClock())
    for notebook in notebooks:
        returned.upsert(notebook)
    return [(one.uid, one.address) for one in returned.waiting]


def test_a_notebook_waits_for_its_route_once_it_has_come_back_and_is_ready() -> None:
    assert waiting(a_notebook()) == [("new", "10.0.0.2")]
    assert waiting(a_notebook(ready="False"), a_notebook("b", address=None)) == []
    assert waiting(a_notebook(ready="False"), a_notebook()) == [("new", "10.0.0.2")]


def test_a_notebook_that_was_never_evicted_is_its_hubs_own_affair() -> None:
    assert waiting(a_notebook(origin=None)) == []


def test_a_settled_notebook_does_not_wait_again_until_it_is_another() -> None:
    returned, calls = ReturnedNotebooks(FakeClock()), []
    returned.on_change = lambda: calls.append(1)
    returned.upsert(a_notebook())
    returned.settle(["new"])
    returned.upsert(a_notebook())
    assert (returned.waiting, len(calls)) == ((), 1)
    returned.remove(a_notebook())
    returned.upsert(a_notebook("newer"))
    assert [one.uid for one in returned.waiting] == ["newer"]


def test_a_list_drops_what_is_gone_and_keeps_what_waits() -> None:
    clock = FakeClock()
    returned = ReturnedNotebooks(clock)
    returned.upsert(a_notebook("gone"))
    returned.upsert(a_notebook("stays"))
    clock.advance(7)
    returned.replace([a_notebook("stays"), a_notebook("more")], "9")
    assert {one.uid: clock.monotonic() - one.since for one in returned.waiting} == {"stays": 7, "more": 0}
