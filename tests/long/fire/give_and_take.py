"""The shortest story in which everything is written that an eviction, a comeback and an end need.

Bob has the last A100 of a node, alice books one and wants it there: his pod leaves, comes back without a GPU,
and hers gets its device. She gives the booking back: hers comes back without a GPU, and bob's next pod has
the device. So it can be played again and again in one namespace, in about five seconds each time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import POD_TEMPLATES
from cluster.objects.pods import Pod, asks_for_gpus
from devcluster import probe
from devcluster.demo import pod_status
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, PATIENCE, Playground
from tests.long.fire.ending import PASSING
from tests.long.fire.patience import Patience, Patient

STAYS: Final = "stays"
"""Bob's other pod, which loses more: it is left alone."""
HIS: Final = "his-"
HERS: Final = "hers-"
"""Their pods, of which each round has a new pair."""


@dataclass(frozen=True)
class Outcome:
    """How one round has ended: equal outcomes are equal ends."""

    same_device: bool
    """Hers got the device of his."""
    his: str
    hers: str
    left: tuple[str, ...]
    """What should have gone: templates, finalizers, labels, annotations; and who was touched without need."""


AS_IT_SHOULD: Final = Outcome(True, "came back, runs without a GPU", "came back, runs without a GPU", ())


Moment = Literal["begun", "served", "over"]
"""``begun``: his pod runs, alice has not booked; ``served``: all is done for hers, but for the end."""


class GiveAndTake:
    """Bob and alice on one node."""

    def __init__(self, alice: Person, bob: Person, ground: Playground, node: str) -> None:
        """Two A100s are on the node, and both are free."""
        self._ground = ground
        self._patience = Patience(ground, PATIENCE)
        self._alice = Patient(alice, ground, self._patience)
        self._bob = Patient(bob, ground, self._patience)
        self._node = node
        self._round = 0
        self._uids: dict[str, str] = {}
        self._bob.create(self._body(STAYS))
        self._await(STAYS, pod_status.is_running)
        self._bob.create(self._body(f"{HIS}1", cheap=True))

    def play(self, reached: Callable[[Moment], object] = lambda _moment: None) -> Outcome:
        """Play one round. Args: reached: called in the story's own thread."""
        self._round += 1
        his, hers = f"{HIS}{self._round}", f"{HERS}{self._round}"
        device = pod_status.devices(self._await(his, pod_status.is_running))
        reached("begun")
        booking = self._alice.book()
        self._alice.create(self._body(hers))
        given = pod_status.devices(self._await(hers, pod_status.is_running))
        self._await(his, self._is_back)
        self._patience.until("all is done for her pod", lambda: not self._left())
        reached("served")
        self._alice.release(booking)
        self._bob.create(self._body(f"{HIS}{self._round + 1}", cheap=True))
        self._await(hers, self._is_back)
        self._patience.until("nothing is left over", lambda: not self._left())
        reached("over")
        outcome = Outcome(given == device, self._fate(his), self._fate(hers), self._left())
        for name in (his, hers):
            self._ground.delete(name)
        return outcome

    # --- waiting -------------------------------------------------------------------------------------
    def _await(self, name: str, condition: Callable[[Pod], object]) -> Pod:
        def found() -> Pod | None:
            pod = self._named(name)
            return pod if pod and condition(pod) else None

        pod = self._patience.until(f"{name} is as it should be", found)
        self._uids.setdefault(name, pod.metadata.uid)
        return pod

    # --- reading -------------------------------------------------------------------------------------
    def _is_back(self, pod: Pod) -> bool:
        came = pod_status.came_back_from(pod) == self._uids[pod.metadata.name]
        return came and pod_status.is_running(pod)

    def _fate(self, name: str) -> str:
        pod = self._named(name)
        if pod is None:
            return "gone"
        came = "came back" if pod_status.came_back_from(pod) == self._uids[name] else "did not come back"
        runs = "runs" if pod_status.is_running(pod) else pod_status.describe(pod)
        return f"{came}, {runs} {'with' if asks_for_gpus(pod) else 'without'} a GPU"

    def _left(self) -> tuple[str, ...]:
        templates = self._ground.kube.list(POD_TEMPLATES, Selection(namespace=self._ground.namespace)).items
        pods = self._ground.pods()
        return (
            *(f"template {one.metadata.name}" for one in templates),
            *(line for pod in pods for line in _left_on(pod)),
            *("the pod that should stay" for p in pods if p.metadata.name == STAYS and self._is_other(p)),
        )

    def _is_other(self, pod: Pod) -> bool:
        return pod.metadata.uid != self._uids[STAYS] or not pod_status.is_running(pod)

    def _named(self, name: str) -> Pod | None:
        return next((pod for pod in self._ground.pods() if pod.metadata.name == name), None)

    def _body(self, name: str, *, cheap: bool = False) -> dict[str, Any]:
        extra = {"nodeSelector": {HOSTNAME: self._node}}
        body = probe.pod(name, [probe.container("main", gpus=1)], model=A100, extra=extra)
        if cheap:
            body["metadata"]["annotations"][names.CHECKPOINT_AT] = "2100-01-01T00:00:00Z"
        return body


def _left_on(pod: Pod) -> list[str]:
    meta = pod.metadata
    found = [*(meta.finalizers or ()), *(key for key in meta.labels or {} if names.is_ours(key))]
    found += [key for key in PASSING if meta.annotation(key)]
    return [f"{key} on {meta.name}" for key in found]
