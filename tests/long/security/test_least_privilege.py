"""Each ServiceAccount may do what its part does in the whole story, and nothing else: compared both ways.

What was asked for is in the API server's audit log; what is granted, in the roles that the chart has
installed. kube-scheduler's own roles are Kubernetes', and are not judged here.
"""

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from cluster import names
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.play import play
from devcluster.demo.reporter import Reporter
from devcluster.fakenvml import default_gpus
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.security.audited import OURS, Call, Trail

pytestmark = pytest.mark.e2e

Grant = tuple[str, str, str, str, str]
"""Role, verb, group, resource, name: empty where the grant is for every name."""

_PAGES: Final = "Where the API server streams no lists (WatchList), kinds are read in pages."
_DOUBT: Final = "An answer that was lost, or a watch that lags, is made good by reading the one object."
_REQUEUED: Final = "A pod waits that kube-scheduler would not try again by itself."
_COUNTED: Final = "An Event that is repeated is counted in the one before it."
UNUSED: Final[dict[tuple[str, str, str], str]] = {
    **{
        (names.CONTROLLER, "list", kind): _PAGES
        for kind in (
            *("leases", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes"),
            *("pods", "podtemplates", "storageclasses", "bookings", "jobs"),
        )
    },
    **{
        (names.EXTENDER, "list", kind): _PAGES
        for kind in ("bookings", "leases", "namespaces", "nodes", "pods")
    },
    **{
        (names.BOOKING_SERVER, "list", kind): _PAGES
        for kind in ("bookings", "jobs", "leases", "namespaces", "nodes", "pods")
    },
    (names.CONTROLLER, "list", "limitranges"): "A pod starts without its GPU, and must not be given another.",
    (names.CONTROLLER, "get", "bookings"): _DOUBT,
    (names.CONTROLLER, "get", "podtemplates"): _DOUBT,
    (names.CONTROLLER, "list", "poddisruptionbudgets"): "A budget protects a pod that should leave.",
    (names.CONTROLLER, "patch", "events"): _COUNTED,
    (names.CONTROLLER, "patch", "secrets"): "The webhook's keys are renewed ninety days before their end.",
    (names.CONTROLLER, "get", "leases"): _DOUBT,
    (names.EXTENDER, "get", "pods"): _DOUBT,
    (names.EXTENDER, "get", "leases"): _DOUBT,
    (names.EXTENDER, "patch", "events"): _COUNTED,
    (names.EXTENDER, "create", "csistoragecapacities"): _REQUEUED,
    (names.EXTENDER, "patch", "csistoragecapacities"): _REQUEUED,
    (names.NODE_AGENT, "list", "nodes"): _PAGES,
    (f"{names.NODE_AGENT}-events", "create", "events"): "A GPU of its node is not healthy any more.",
    (f"{names.NODE_AGENT}-events", "patch", "events"): _COUNTED,
    (names.BOOKING_SERVER, "get", "nodes"): "An administrator takes a GPU out of use.",
    (names.NODE_AGENT, "list", "pods"): "The first pods after a kubelet start, whose own API knows none yet.",
    (names.NODE_AGENT, "watch", "pods"): "Kubelets before 1.37 do not serve their pods.",
    (names.BOOKING_SERVER, "delete", "bookings"): "Bookings that are cancelled, or ended a week ago.",
    (names.BOOKING_SERVER, "get", "namespaces"): "An administrator orders an eviction.",
    (names.BOOKING_SERVER, "get", "pods"): "Why a pod waits; an administrator orders an eviction.",
    (names.BOOKING_SERVER, "list", "events"): "Why a pod was never created.",
    (names.BOOKING_SERVER, "list", "resourcequotas"): "Somebody books for a namespace.",
    (names.BOOKING_SERVER, "patch", "nodes"): "Maintenance is planned, or a GPU taken out of use.",
    (names.BOOKING_SERVER, "patch", "pods"): "An administrator orders an eviction.",
}
"""Role, verb, kind: granted, and not always used by the story; each with what uses it."""


@dataclass(frozen=True)
class Played:
    """The story, when it has been played."""

    calls: tuple[Call, ...]
    """Of our accounts."""
    granted: dict[Grant, set[str]]
    """To which accounts."""

    def uses(self, grant: Grant) -> bool:
        """Whether any of those who have it has made use of it."""
        return any(covers(grant, call, self.granted[grant]) for call in self.calls)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    trail = Trail(tmp_path_factory.mktemp("audit"))
    nodes = tuple(NodeSpec(name=f"node-{letter}", gpus=default_gpus(n)) for n, letter in enumerate("ab"))
    spec = ClusterSpec(name=own("privilege"), nodes=nodes, apiserver_arguments=trail.arguments)
    with (
        Cluster.start(spec) as cluster,
        LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws,
    ):
        # The chart's kube-scheduler elects a leader, and is granted what that takes.
        play(cluster, Reporter(io.StringIO()), parts=Parts(cluster, elects=True), patience=180.0)
        laws.finish()
        calls = tuple(call for call in trail.calls() if call.user.startswith(OURS))
        yield Played(calls, granted(cluster))


def granted(cluster: Cluster) -> dict[Grant, set[str]]:
    """What the roles of the chart grant, and to whom."""
    kinds = "clusterrolebindings,rolebindings,clusterroles,roles"
    words = (
        "get",
        kinds,
        "--all-namespaces",
        "--output=json",
        "--selector=app.kubernetes.io/managed-by=Helm",
    )
    found = json.loads(cluster.kubectl(*words))["items"]
    rules = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in found if "rules" in one}
    grants: dict[Grant, set[str]] = defaultdict(set)
    for one in found:
        role = one.get("roleRef", {})
        accounts = {
            subject["name"] for subject in one.get("subjects", ()) if subject["kind"] == "ServiceAccount"
        }
        for rule in rules.get((role.get("kind"), role.get("name")), ()) if accounts else ():
            for grant in grants_in(role["name"], rule):
                grants[grant] |= accounts
    return dict(grants)


def grants_in(role: str, rule: dict[str, Any]) -> Iterator[Grant]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield (role, verb, group, resource, name)


def covers(grant: Grant, call: Call, accounts: set[str]) -> bool:
    """Whether a grant is what a call needed."""
    _, *wanted, name = grant
    requested = [call.verb, call.group, call.resource]
    return call.user.removeprefix(OURS) in accounts and requested == wanted and name in {"", call.name}


def test_no_part_asks_for_what_it_is_not_granted(played: Played) -> None:
    assert {call.user.removeprefix(OURS) for call in played.calls} >= {
        names.NODE_AGENT,
        names.EXTENDER,
        names.SCHEDULER_ACCOUNT,
        names.BOOKING_SERVER,
        names.CONTROLLER,
    }
    refused = {(call.user, call.verb, call.resource) for call in played.calls if call.code in {401, 403}}
    assert not refused


def test_no_part_is_granted_what_it_does_not_use(played: Played) -> None:
    unused = sorted(
        grant for grant in played.granted if kind_of(grant) not in UNUSED and not played.uses(grant)
    )
    left = "\n".join(" ".join(grant) for grant in unused)
    assert not left, f"Take it out of the chart, or say what uses it:\n{left}"


def test_every_exception_is_granted_and_has_its_reason(played: Played) -> None:
    assert UNUSED.keys() <= {kind_of(grant) for grant in played.granted}
    assert all(reason.endswith(".") for reason in UNUSED.values())


def kind_of(grant: Grant) -> tuple[str, str, str]:
    role, verb, _, resource, _ = grant
    return role, verb, resource
