"""How many calls to a real API server the controller makes for one eviction, from the hold to its end.

A proxy between the two counts all calls for pods, PodTemplates and Bookings, reads and refused ones as
well. It does not count watches and Leases, nor Events, which another thread writes and which have their own
row. Calls for the booked pod are the hold, the reading of all Bookings, and repeated attempts: its hold is
refused once if kube-scheduler writes to the new pod at the same moment.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from statistics import fmean, median
from typing import Any, Final

from cluster import names
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.faultproxy import Call, FaultProxy
from devcluster.wait import poll
from tests.bench.bench_booked import A100, body
from tests.bench.lab import Lab, Standing
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE, PATIENCE
from tests.bench.rows import Kind, Row, Target

ROUNDS: Final = 5
OTHERS: Final = 3
OWNER: Final = "owner"
_COUNTED: Final = frozenset({"pods", "podtemplates", "bookings"})
_BARE: Final = Kind(
    "eviction-calls-bare",
    f"calls of the controller about one evicted bare pod, until its comeback is released, median of {ROUNDS}",
    "calls",
    target=Target(value=10),
)
_OWNED: Final = Kind(
    "eviction-calls-owned",
    f"calls of the controller about one evicted pod of a controller, median of {ROUNDS}",
    "calls",
    target=Target(value=4),
)
_BOOKED: Final = Kind(
    "eviction-calls-booked",
    f"with them: about the booked pod for which it left, until that is bound, mean of {2 * ROUNDS}",
    "calls",
)
_EVENTS: Final = Kind("eviction-events", "writes of Events because of one evicted bare pod, median", "calls")


def measure(lab: Lab) -> Iterator[Row]:
    """Bob's pod leaves for alice's, again and again: a bare one, and one with a controller."""
    standing = lab.standing
    with _proxied(standing) as proxy, _booked(standing) as alice:
        bare = [_round(standing, alice, proxy, number, owned=False) for number in range(ROUNDS)]
        owned = [_round(standing, alice, proxy, number, owned=True) for number in range(ROUNDS)]
    yield _BARE.row(median(calls["victim"] for calls in bare))
    yield _OWNED.row(median(calls["victim"] for calls in owned))
    yield _BOOKED.row(fmean(calls["booked"] for calls in bare + owned))
    yield _EVENTS.row(median(calls["events"] for calls in bare))


@contextmanager
def _proxied(standing: Standing) -> Iterator[FaultProxy]:
    """The controller, connected through a proxy."""
    cluster, parts = standing.cluster, standing.parts
    folder = parts.folder / "proxy"
    with FaultProxy(cluster.api_server, cluster.ca_file, folder, host=cluster.host_address) as proxy:
        server = {names.setting("kube_server"): proxy.url, names.setting("kube_ca_file"): str(proxy.ca_file)}
        parts.controller().kill()
        parts.start_controller(server)
        try:
            parts.await_ready()
            yield proxy
        finally:
            parts.controller().kill()
            parts.start_controller()
            parts.await_ready()


@contextmanager
def _booked(standing: Standing) -> Iterator[Kube]:
    """Alice, who has booked one of four A100s; bob's pods hold the other three."""
    parts, ground = standing.parts, standing.ground
    parts.people.admit("alice", NAMESPACE)
    alice = person(standing.cluster, parts.people.token("alice"))
    rest = Rest(parts.booking_url, parts.people.token("alice", names.AUDIENCE))
    answer = rest.book(model=A100, count=1, duration="P2D")
    if answer.is_refusal:
        raise RuntimeError(f"The bench may not book: {answer.body}")
    others = [f"stays-{number}" for number in range(OTHERS)]
    ground.bear(*(body(name) for name in others))
    try:
        yield alice
    finally:
        rest.release(answer.body["id"])
        alice.close()
    ground.remove_all(others)


def _round(
    standing: Standing, alice: Kube, proxy: FaultProxy, number: int, *, owned: bool
) -> Mapping[str, int]:
    """The numbers of calls of one eviction."""
    ground, kind = standing.ground, "owned" if owned else "bare"
    victim, hers = f"goes-{kind}-{number}", f"hers-{kind}-{number}"
    ground.bear(_owned(standing, victim) if owned else body(victim, safe=True))
    proxy.rules.set()
    ground.bear(body(hers), by=alice)
    if not owned:
        ground.await_return(victim)
    with closing(administrator(standing.cluster)) as kube:
        released = owned or poll(
            lambda: not kube.get(PODS, victim, namespace=NAMESPACE).metadata.finalizers, seconds=PATIENCE
        )
    if not released:
        raise RuntimeError(f"The comeback of {victim} is not released.")
    calls = [record.call for record in proxy.rules.records if record.call.caller == names.CONTROLLER]
    ground.remove(hers)
    if not owned:
        ground.remove(victim)
    return _counted(calls, hers)


def _counted(calls: list[Call], hers: str) -> Mapping[str, int]:
    requests = [call for call in calls if call.place.resource in _COUNTED and not call.is_watch]
    booked = [call for call in requests if call.place.name == hers or call.place.resource == "bookings"]
    events = sum(call.place.resource == "events" for call in calls)
    return {"victim": len(requests) - len(booked), "booked": len(booked), "events": events}


def _owned(standing: Standing, name: str) -> dict[str, Any]:
    """The body of a pod whose controller creates no replacement."""
    kubectl = standing.cluster.kubectl
    kubectl("create", "configmap", f"{OWNER}-{name}", "--namespace", NAMESPACE)
    words = (
        "get",
        "configmap",
        f"{OWNER}-{name}",
        "--namespace",
        NAMESPACE,
        "--output",
        "jsonpath={.metadata.uid}",
    )
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"{OWNER}-{name}", "uid": kubectl(*words)}
    made = body(name, safe=True)
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return made


MEASURE: Final = Measure("evictions", (_BARE, _OWNED, _BOOKED, _EVENTS), measure, on_cluster=True)
