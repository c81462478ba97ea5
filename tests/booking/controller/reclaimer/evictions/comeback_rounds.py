"""One round of comebacks at a time: what another process has left, and the calls of the next round."""

from typing import Any, Final

from booking.controller.reclaimer.evictions.api_calls import Calls
from booking.controller.reclaimer.evictions.comeback_cache import SELECTED, ComebackCache
from booking.controller.reclaimer.evictions.comebacks import Comebacks
from cluster import event_reasons, names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Refusal, Request, refused
from cluster.kube.interface import Selection
from cluster.kube.resources import POD_TEMPLATES, PODS, PodTemplate
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.evictions.comebacks import NAMESPACE, FakeRecorder, gpu_pod

MARKED: Final = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": event_reasons.BOOKING_ENDED}
READY: Final = {"type": "Ready", "status": "True"}
NAME_OF_TEMPLATE: Final = f"{names.COMEBACK_PREFIX}v"
DUE_AT: Final = "2026-03-02T08:00:00Z"


class Longest:
    """Each pause is as long as it can be."""

    def uniform(self, a: float, b: float, /) -> float:
        return max(a, b)


class Round:
    """An API server with the objects of comebacks, and one process that advances them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.recorder = FakeRecorder()
        self.restart()

    def restart(self) -> None:
        """Another process, which knows nothing yet."""
        self.seen = ComebackCache()
        calls = Calls(self.kube, self.clock)
        self.comebacks = Comebacks(calls, self.clock, self.recorder, self.seen, random=Longest())

    # --- what another process has left -----------------------------------------------------------------
    def victim(
        self,
        *,
        name: str = "p",
        uid: str = "v",
        finalizers: tuple[str, ...] = (names.COMEBACK,),
        label: bool = True,
        leaving: bool = False,
        marked: bool = False,
        ended: bool = False,
        **metadata: Any,
    ) -> Pod:
        """A pod of Bob's, prepared, evicted or ended."""
        pod = gpu_pod(name, uid=uid, finalizers=list(finalizers), **metadata)
        if label:
            pod["metadata"]["labels"] = {names.COMEBACK: "true"}
        if leaving:
            pod["metadata"]["deletionTimestamp"] = DUE_AT
        pod["status"]["conditions"] = [READY, MARKED] if marked else [READY]
        if ended:
            pod["status"]["phase"] = "Failed"
        return self.kube.put(PODS, pod)

    def template(
        self, *, due: bool = False, name: str = "p", uid: str = "v", **annotations: str
    ) -> PodTemplate:
        """The template of a pod that comes back without a GPU, or with one, as it was."""
        comeback_annotations = {
            names.COMEBACK_REASON: "evicted",
            names.COMEBACK_MESSAGE: "A booked pod needs the GPU.",
        }
        comeback_annotations |= {names.COMEBACK_DUE: DUE_AT} if due else {}
        has_gpu = names.COMEBACK_HOW in annotations
        resources = {"resources": {"limits": {names.GPU_RESOURCE: "1"}}} if has_gpu else {}
        spec = {"containers": [{"name": "main", "image": "x", **resources}]}
        kept = {"name": name, "labels": {"app": "x"}, "annotations": {names.RECREATED_FROM: uid}}
        metadata = {
            "name": f"{names.COMEBACK_PREFIX}{uid}",
            "namespace": NAMESPACE,
            "labels": {names.COMEBACK: "true"},
            "annotations": comeback_annotations | annotations,
        }
        return self.kube.put(
            POD_TEMPLATES, {"metadata": metadata, "template": {"metadata": kept, "spec": spec}}
        )

    def returning(
        self, *, finalizers: tuple[str, ...] = (names.COMEBACK,), of: str = "v", label: bool = True
    ) -> Pod:
        """The pod that was created in the victim's place."""
        metadata = {
            "name": "p",
            "namespace": NAMESPACE,
            "uid": "r",
            "labels": {names.COMEBACK: "true"} if label else {},
            "annotations": {names.RECREATED_FROM: of},
            "finalizers": list(finalizers),
        }
        return self.kube.put(
            PODS, {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        )

    # --- one round -------------------------------------------------------------------------------------
    def sync(self, *, pods: bool = True, templates: bool = True) -> None:
        """Let the watches catch up."""
        ours = Selection(label_selector=SELECTED)
        if pods:
            page = self.kube.list(PODS, ours)
            self.seen.pods.replace(page.items, page.resource_version)
        if templates:
            stored = self.kube.list(POD_TEMPLATES, ours)
            self.seen.templates.replace(stored.items, stored.resource_version)

    def reconcile(self, *wanted: str) -> list[str]:
        """The calls of one reconciliation."""
        before = len(self.kube.calls)
        self.comebacks.reconcile(frozenset(wanted))
        return [
            f"{call.verb} {call.path.partition(f'/{NAMESPACE}/')[2]}"
            for call in self.kube.calls[before:]
            if call.verb != "LIST"
        ]

    def pod(self, name: str = "p") -> Pod | None:
        found = self.kube.list(PODS, Selection(namespace=NAMESPACE, field_selector=f"metadata.name={name}"))
        return next(iter(found.items), None)

    @property
    def templates(self) -> int:
        return len(self.kube.list(POD_TEMPLATES).items)


READ_POD: Final = "GET pods/p"
PATCH_POD: Final = "PATCH pods/p"
STATUS: Final = "PATCH pods/p/status"
CREATE: Final = "POST pods"
GET_TEMPLATE: Final = f"GET podtemplates/{NAME_OF_TEMPLATE}"
MARK_DUE: Final = f"PATCH podtemplates/{NAME_OF_TEMPLATE}"
FORGET: Final = f"DELETE podtemplates/{NAME_OF_TEMPLATE}"
STORE: Final = "POST podtemplates"


def error(code: int, message: str = "not today", **details: Any) -> ApiError:
    reasons = {
        403: "Forbidden",
        409: "Conflict",
        422: "Invalid",
        429: "TooManyRequests",
        500: "InternalError",
    }
    refusal = Refusal(code=code, reason=reasons.get(code, ""), message=message, details=details)
    return refused(Request("X", "x"), refusal)
