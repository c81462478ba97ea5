"""*Queue*: who holds, deserves and waits for GPUs without a booking, on the page, by REST and for one pod."""

from datetime import timedelta
from typing import Any

import msgspec

from booking.fair_shares.stored_record import KEY, StoredRecord
from booking.policy.fair_shares import FairShares
from booking.principals import Principal
from booking.server.cluster_status.share_record import READ_EVERY
from cluster import names
from cluster.decide.eviction.costs import microseconds
from cluster.kube.resources import CONFIG_MAPS, LEASES, NODES, PODS
from tests.booking.server.web.pages.site import Site, page_text
from tests.fakes.objects import A100, a100, a_lease, a_node, a_pod


def contended(site: Site) -> None:
    """Bob has both A100s and two older pods that wait; alice waits with one."""
    now = site.clock.now()
    site.cache.of(NODES).upsert(a_node("n0", a100(0), a100(1)))
    site.cache.of(LEASES).upsert(a_lease("n0", renewed=now))
    for number in range(2):
        holder = a_pod(f"b{number}").of("bob").asks(1).on("n0", {"main": (f"GPU-n0-{number}",)})
        site.cache.of(PODS).upsert(holder.created(now).obj)
    waiting = {"bob-1": "bob", "bob-2": "bob", "alice-1": "alice"}
    for age, (name, user) in enumerate(reversed(waiting.items())):
        pod = a_pod(name).of(user).asks(1).wants(A100).behind()
        site.cache.of(PODS).upsert(pod.created(now - timedelta(minutes=age)).obj)


def foreseen(site: Site, pod: str, after: timedelta) -> None:
    """The controller has recorded that GPUs are taken back for the pod so long from now, and it was read."""
    site.clock.advance(READ_EVERY)
    site.fair_shares = FairShares(mode="reclaim")
    due = {A100: {f"uid-{pod}": microseconds(site.clock.now() + after)}}
    record = StoredRecord(at=microseconds(site.clock.now()), books={A100: ()}, due=due)
    meta = {"name": names.SHARES_RECORD, "namespace": names.NAMESPACE}
    data = {KEY: msgspec.json.encode(record).decode()}
    site.kube.create(CONFIG_MAPS, {"metadata": meta, "data": data}, namespace=names.NAMESPACE)


def queue(site: Site, query: str = "") -> dict[str, Any]:
    found: dict[str, Any] = site.client.get(
        f"/api/v1/queue{query}", headers={"Authorization": "Bearer alice-token"}
    ).json
    return found


def test_the_order_and_the_shares_are_shown_and_others_are_not_named(site: Site) -> None:
    contended(site)
    found = queue(site)
    assert found["mode"] == "order"
    (model,) = found["models"]
    assert [(pod["position"], pod["name"], pod["user"]) for pod in model["pods"]] == [
        (1, "alice-1", "alice"),
        (2, None, None),
        (3, None, None),
    ]
    mine, bobs = sorted(model["users"], key=lambda user: not user["is_mine"])
    assert (mine["user"], mine["holds"], mine["waits_for"], mine["deserves"]) == ("alice", 0, 1, 1.0)
    assert (bobs["user"], bobs["holds"], bobs["waits_for"], bobs["deserves"]) == (None, 2, 2, 1.0)
    assert queue(site, "?model=T4")["models"] == []


def test_the_page_shows_the_line(site: Site) -> None:
    contended(site)
    text = page_text(site.see("/queue"))
    assert "alice-1 yours" in text
    assert text.count("another user's pod") == 2


def test_it_is_shown_when_gpus_are_taken_back(site: Site) -> None:
    contended(site)
    assert "taken back" not in page_text(site.see("/queue"))
    foreseen(site, "alice-1", timedelta(hours=1))
    (model,) = queue(site)["models"]
    assert {pod["name"]: pod["taken_at"] for pod in model["pods"] if pod["taken_at"]} == {
        "alice-1": (site.clock.now() + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    }
    text = page_text(site.see("/queue"))
    assert "GPUs are taken back for it" in text
    assert "11:00" in text.partition("alice-1")[2].partition("another user's pod")[0]
    assert "GPUs are taken back" in page_text(site.see("/why/default/alice-1"))


def test_why_says_the_pods_place(site: Site) -> None:
    contended(site)
    text = page_text(site.see("/why/default/alice-1"))
    assert "This pod is number 1 in line" in text


def test_without_knowledge_of_the_cluster_there_is_no_line(site: Site) -> None:
    site.unknown_capacity = "The nodes are not known."
    assert "The nodes are not known." in page_text(site.see("/queue"))


def test_what_a_gang_waits_for_is_on_the_page_and_in_the_answer_to_why(site: Site) -> None:
    contended(site)
    pod = a_pod("g-0").of("alice").asks(1).wants(A100).behind().with_annotation(names.GANG, "g")
    pod = pod.created(site.clock.now()).with_annotation(names.GANG_SIZE, "2")
    site.cache.of(PODS).upsert(pod.obj)
    (model,) = queue(site)["models"]
    (row,) = (one for one in model["pods"] if one["name"] == "g-0")
    assert (row["position"], row["gang_pods"], row["gang_size"]) == (None, 1, 2)
    assert "1 of 2 pods" in page_text(site.see("/queue"))
    assert "1 of 2 exist" in page_text(site.see("/why/default/g-0"))
    site.cache.of(PODS).upsert(pod.called("g-1").obj)
    assert "It is one of a gang of 2 pods" in page_text(site.see("/why/default/g-1"))


def test_the_picture_has_everybodys_gpus_over_time_and_what_one_deserves(site: Site) -> None:
    site.visibility = "names"
    contended(site)
    site.shares.reconcile()
    site.clock.advance(60)
    site.cache.of(PODS).remove(site.cache.pods["uid-b0"])
    pod = a_pod("alice-2").of("alice").asks(1).on("n0", {"main": ("GPU-n0-0",)})
    site.cache.of(PODS).upsert(pod.created(site.clock.now()).obj)
    site.cache.of(LEASES).upsert(a_lease("n0", renewed=site.clock.now()))
    site.shares.reconcile()
    site.clock.advance(60)
    (found,) = site.live.shares_over_time(Principal(user="alice", name="alice"))
    assert [(user.user, user.held) for user in found.users] == [("alice", (0, 1)), ("bob", (2, 1))]
    assert found.deserved == (1.0, 1.0)
    site.visibility = "load"
    (unnamed,) = site.live.shares_over_time(Principal(user="alice", name="alice"))
    assert [(user.user, user.held) for user in unnamed.users] == [("alice", (0, 1)), (None, (2, 1))]
    site.visibility = "names"
    page = site.see("/queue").get_data(as_text=True)
    assert 'class="a-mine band" d="M0.0 140H720.0V70H1440.0V140H0.0Z"' in page
