"""The lab behind the bar: what a visitor does there is what the product makes of it, and no law is broken."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from booking.principals import Principal
from booking.server.records import BookingRequest
from cluster import names
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.pods import asks_for_gpus, is_live
from demo.lab.life import gpus_of
from demo.lab.nodes import LAB, devices_of
from demo.lab.people import EVERYBODY, namespace_of
from demo.lab.pods import SHARE, SHARERS
from tests.demo.watched_site import a_site, go_through, texts

JOB = "alice-job-1"
ALICE = Principal(user="alice", name="alice")


def test_alices_booked_pod_takes_a_gpu_of_bobs_who_is_warned_leaves_and_comes_back(tmp_path: Path) -> None:
    with a_site(tmp_path) as (site, actions):
        assert "that alice has booked" in actions.start("alice", 1)
        site.until(lambda: site.runs(JOB), "alice's pod runs")
        assert site.of_booking(JOB)
        (victim,) = {entry.name for entry in site.feed.newest() if "evicted" in entry.text}
        site.until(lambda: site.runs(victim), "bob's pod is back")
        back = site.named(victim)
        assert back is not None
        assert back.metadata.annotation(names.USER) == "bob"
        assert not asks_for_gpus(back)
        happened = " ".join(texts(site, victim))
        assert f"its GPUs are needed by the booked pod vision/{JOB}" in happened
        assert "is asked to end." in happened
        assert "came back without a GPU" in happened


def test_six_hours_are_gone_through_with_all_that_happens_in_them(tmp_path: Path) -> None:
    """A whole day is in tests/long/demo."""
    go_through(tmp_path, timedelta(hours=6))


def test_the_lab_has_a_month_of_bookings_a_maintenance_and_one_booking_at_risk(tmp_path: Path) -> None:
    with a_site(tmp_path) as (site, _):
        records = site.booking_server.opened_store.records_ending_after(site.clock.now() - timedelta(days=40))
        assert {record.user for record in records} == set(EVERYBODY)
        assert len(EVERYBODY) == 12
        assert len(records) > 30
        (block,) = site.server.bookings.blocks(Principal(user="carol", name="carol", is_administrator=True))
        at_risk = site.server.bookings.at_risk(records)
        (risky,) = (record for record in records if record.id in at_risk)
        assert (risky.user, risky.model) == ("alice", site.devices[block.node][0].model)
        models = Counter(device.model for devices in site.devices.values() for device in devices)
        assert (len(site.devices), len(models)) == (6, 4)


def test_two_people_have_booked_shares_of_one_gpu_and_a_visitor_books_a_part_of_it_too(
    tmp_path: Path,
) -> None:
    with a_site(tmp_path) as (site, _):
        one, other = (b.spec for b in site.kube.list(BOOKINGS).items if b.spec.memory)
        span = {"start": max(one.start, other.start), "end": min(one.end, other.end)}
        request = BookingRequest(model=one.model, memory=one.memory, **span)
        record = site.server.bookings.create(
            Principal(user="bob", name="bob", is_administrator=False), request
        )
        (lane,) = {place.lanes for place in (*one.places, *other.places)}
        assert [place.lanes for place in record.plan] == [lane]


def test_a_gpu_that_breaks_and_a_node_that_is_drained_lose_their_pods_and_are_given_back(
    tmp_path: Path,
) -> None:
    with a_site(tmp_path) as (site, actions):
        assert "fallen off the bus" in actions.turn_gpu()
        assert actions.broken
        assert "is healthy again" in actions.turn_gpu()
        assert "pods were ordered to leave" in actions.turn_node()
        node = actions.drained
        assert node

        def is_empty() -> bool:
            there = (pod for pod in site.kube.list(PODS).items if pod.spec.node_name == node)
            return not any(is_live(pod) and gpus_of(pod) for pod in there)

        site.until(is_empty, "the node is empty", within=120)
        assert "takes pods again" in actions.turn_node()


def test_a_notebook_for_which_no_gpu_is_free_starts_without_one(tmp_path: Path) -> None:
    with a_site(tmp_path, nodes=2) as (site, actions):
        for _ in range(3):
            actions.start("bob", 8)
        site.go_on(5)
        actions.notebook("bob")
        site.until(lambda: site.runs("jupyter-bob-4"), "the notebook runs")
        pod = site.named("jupyter-bob-4")
        assert pod is not None
        assert not asks_for_gpus(pod)


def test_an_empty_lab_has_nodes_alone(tmp_path: Path) -> None:
    with a_site(tmp_path, empty=True) as (site, actions):
        assert not site.kube.list(PODS).items
        assert not site.kube.list(BOOKINGS).items
        actions.start("bob", 8)
        site.until(lambda: site.runs("bob-job-1"), "the job runs")


def test_a_database_that_was_kept_is_gone_on_with(tmp_path: Path) -> None:
    with a_site(tmp_path) as (site, _):
        before = {booking.name for booking in site.kube.list(BOOKINGS).items}
    with a_site(tmp_path) as (site, _):
        assert {booking.name for booking in site.kube.list(BOOKINGS).items} == before


@pytest.mark.parametrize("nodes", range(1, 6))
def test_a_site_of_a_few_nodes_lacks_models_and_is_at_work_all_the_same(tmp_path: Path, nodes: int) -> None:
    with a_site(tmp_path, nodes=nodes) as (site, actions):
        actions.start("alice", 1)
        site.until(lambda: site.runs(JOB), "alice's job runs")


def test_a_large_site_is_made_of_many_labs() -> None:
    large = devices_of(300)
    assert len(large) == 300
    uuids = [device.uuid for devices in large.values() for device in devices]
    assert len(set(uuids)) == len(uuids) > 40 * sum(count for _, count in LAB)


def test_pods_share_one_gpu_and_a_visitors_share_joins_them(tmp_path: Path) -> None:
    with a_site(tmp_path) as (site, actions):
        assert "is created" in actions.share("bob")
        site.until(lambda: site.runs("bob-share-1"), "bob's share runs")
        shared = [gpu for node in site.now(ALICE).nodes for gpu in node.devices if gpu.shares]
        (gpu,) = shared
        assert gpu.shares
        assert (gpu.shares.pods, gpu.standing) == (SHARERS + 1, "lent")
        parts = sorted(pod.share.memory_mib for pod in gpu.pods if pod.share)
        assert parts == [SHARE] * SHARERS + [gpu.shares.offered_mib // 4]
        assert gpu.use
        assert gpu.use.memory_used_mib == sum(pod.memory_used_mib or 0 for pod in gpu.pods)


def test_a_booked_pod_takes_a_gpu_that_another_has_by_a_claim(tmp_path: Path) -> None:
    with a_site(tmp_path, nodes=7) as (site, actions):
        assert "is created" in actions.claim("bob")
        site.until(lambda: site.runs("bob-claim-1"), "bob's pod runs")
        assert site.of_booking("bob-claim-1")
        (victim,) = {entry.name for entry in site.feed.newest() if "evicted" in entry.text}
        site.until(lambda: site.runs(victim), "whoever has left is back")
        back = site.named(victim)
        assert back is not None
        assert not back.spec.resource_claims
        assert "runs on a6000-03, with GPUs by claim" in " ".join(texts(site, "bob-claim-1"))


def test_a_share_for_which_no_gpu_has_room_opens_another_one(tmp_path: Path) -> None:
    with a_site(tmp_path) as (site, actions):
        for number in range(1, 5):
            actions.share("bob")
            site.until(lambda name=f"bob-share-{number}": site.runs(name), "bob's share runs")
        assert sum(bool(gpu.shares) for node in site.now(ALICE).nodes for gpu in node.devices) == 2


def test_a_gpu_that_is_shared_is_given_to_nobody_whole(tmp_path: Path) -> None:
    with a_site(tmp_path, empty=True, nodes=1) as (site, actions):
        actions.share("bob")
        site.until(lambda: site.runs("bob-share-1"), "bob's share runs")
        actions.start("alice", 8)
        site.go_on(5)
        assert not site.runs("alice-job-2")
        site.kube.delete(PODS, "bob-share-1", namespace=namespace_of("bob"))
        site.until(lambda: site.runs("alice-job-2"), "alice's job runs once the GPU is nobody's")
