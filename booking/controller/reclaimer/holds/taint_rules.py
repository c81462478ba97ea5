"""The hold on devices of claims as kube-scheduler sees it: taints that only the pod's claims tolerate.

kube-scheduler chooses the devices of claims itself, and does not ask us. So before a victim leaves, there is
a DeviceTaintRule for each device of the hold, and it is old enough for kube-scheduler to know it: nothing
acknowledges that. Where bookings say on which device a share must be, other devices with room are kept from
everybody meanwhile. Names follow from pod, device and value: after a crash the same rules are asked for
again. Every rule whose hold is gone is removed, also an earlier process's. A dead controller leaves devices
unused, never given away.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import structlog

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import claim_names, names
from cluster.decide.request import gpu_request_of
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import TAINT_RULES
from cluster.objects.claims import KNOWN_AFTER, TaintRule
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

NOT: Final = "not-"
"""Begins the value of a taint that no claim tolerates."""
SEEN_WITHIN: Final = 5.0
"""Seconds within which our watch delivers what we wrote: rules, and the holds that they belong to."""

Json = dict[str, Any]


@dataclass(slots=True)
class _Standing:
    """A rule that is there."""

    since: float
    """Since when for certain; monotonic seconds."""
    is_seen: bool
    """Whether our watch has shown it."""


class TaintRules:
    """Writes and removes the rules of holds. Not thread-safe."""

    def __init__(self, kube: Kube, clock: Clock, failures: ApiFailures, driver: str) -> None:
        """Args: failures: counts requests that failed; driver: the name of our driver of claims."""
        self._kube = kube
        self._clock = clock
        self._failures = failures
        self._driver = driver
        self._standing: dict[str, _Standing] = {}
        """By name."""
        self._removed: dict[str, str] = {}
        """Name -> uid of a rule that we removed, while our watch still shows it."""
        self._useless: dict[str, float] = {}
        """Name of another process's rule -> since when it has no hold; monotonic seconds."""
        self._ahead: dict[str, tuple[Pod, Hold, float]] = {}
        """Uid -> a pod whose hold is yet to be written, that hold, and when it was last wanted."""
        self._swept: ReclaimerSnapshot | None = None
        """The last snapshot."""
        self._requests = RecentRequests(clock)

    def keep(self, pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> bool:
        """Whether kube-scheduler keeps the hold's devices for the pod; writes the rules that are missing.

        True for a hold on devices that no claim gives. False also where the pod's claims tolerate nothing
        that others do not.

        Raises:
            ApiError: a rule could not be written.
        """
        wanted = self._wanted(pod, hold, snapshot)
        if wanted is None:
            return False
        for name, body in wanted.items():
            now, known = self._clock.monotonic(), self._standing.get(name)
            if self._is_shown(name, snapshot):
                self._standing[name] = _Standing(known.since if known else now, is_seen=True)
            elif known is None or known.is_seen or now - known.since > SEEN_WITHIN:
                self._write(body)
                self._standing[name] = _Standing(self._clock.monotonic(), is_seen=False)
        now = self._clock.monotonic()
        return all(now - self._standing[name].since >= KNOWN_AFTER for name in wanted)

    def keep_ahead(self, pod: Pod, hold: Hold) -> bool:
        """The same for a hold that is written once kube-scheduler keeps its devices; call it until then."""
        self._ahead[pod.metadata.uid] = (pod, hold, self._clock.monotonic())
        return self._swept is not None and self.keep(pod, hold, self._swept)

    def sweep(self, snapshot: ReclaimerSnapshot) -> None:
        """Remove the rules of pods that are bound or gone, or whose hold is on other devices."""
        self._swept = snapshot
        wanted, now = set[str](), self._clock.monotonic()
        self._ahead = {uid: one for uid, one in self._ahead.items() if now - one[2] < SEEN_WITHIN}
        ahead = {uid: hold for uid, (_, hold, _) in self._ahead.items()}
        for uid, hold in {**ahead, **snapshot.holds}.items():
            pod = snapshot.pods.get(uid)
            if pod is not None and not pod.spec.node_name and is_live(pod):
                wanted |= (self._wanted(pod, hold, snapshot) or {}).keys()
        useless = {
            name: rule
            for name, rule in snapshot.taint_rules.items()
            if names.HOLD_OF in (rule.metadata.labels or {}) and name not in wanted
        }
        self._removed = {name: uid for name, uid in self._removed.items() if self._shows(name, uid, snapshot)}
        self._useless = {name: since for name, since in self._useless.items() if name in useless}
        for name, rule in useless.items():
            if self._is_over(name, rule, snapshot) and self._requests.is_due(name):
                self._remove(rule)
        self._standing = {name: one for name, one in self._standing.items() if name in wanted}

    def start_again(self) -> None:
        """Forget how long rules have stood: another process has led, or the API server was away."""
        self._standing.clear()

    def _is_over(self, name: str, rule: TaintRule, snapshot: ReclaimerSnapshot) -> bool:
        """Whether a rule's hold is gone, and is not merely unknown here yet.

        Rules and holds come by two watches: of a process that led before, the rule may come first.
        """
        pod = snapshot.pods.get((rule.metadata.labels or {})[names.HOLD_OF])
        if name in self._standing or (pod and (pod.spec.node_name or not is_live(pod))):
            return True
        now = self._clock.monotonic()
        return now - self._useless.setdefault(name, now) >= SEEN_WITHIN

    def _is_shown(self, name: str, snapshot: ReclaimerSnapshot) -> bool:
        rule = snapshot.taint_rules.get(name)
        return rule is not None and rule.metadata.uid != self._removed.get(name)

    @staticmethod
    def _shows(name: str, uid: str, snapshot: ReclaimerSnapshot) -> bool:
        rule = snapshot.taint_rules.get(name)
        return rule is not None and rule.metadata.uid == uid

    def _wanted(self, pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> dict[str, Json] | None:
        """Name -> each rule of the hold; None where it cannot be kept."""
        known = snapshot.node_snapshots.views.get(hold.node)
        devices = {device.uuid: device for device in known.devices} if known else {}
        called = [devices[uuid].claimed_as for uuid in hold.devices if uuid in devices]
        if pod.claims is None:
            return {}
        keys = pod.claims.keys_of(len(called))
        if len(called) != len(hold.devices) or keys is None or not all(called):
            return None
        elsewhere = f"{NOT}{pod.metadata.uid}"
        rules = [
            *((name, key) for name, key in zip(called, keys, strict=True) if name),
            *((name, elsewhere) for name in self._astray(pod, hold, snapshot)),
        ]
        bodies = [self._rule(pod, hold.node, name, key) for name, key in rules]
        return {body["metadata"]["name"]: body for body in bodies}

    @staticmethod
    def _astray(pod: Pod, hold: Hold, snapshot: ReclaimerSnapshot) -> Iterator[str]:
        """Devices of which the pod could get its share now, and bookings do not allow it: nobody gets them.

        In names of the ResourceSlices. kube-scheduler takes the first device with room.
        """
        need, known = snapshot.needs.get(pod.metadata.uid), snapshot.node_snapshots.views.get(hold.node)
        if hold.memory is None or need is None or known is None:
            return
        request = snapshot.share_places.confined(gpu_request_of(pod, need.booking), need.booking)
        for device in known.devices:
            has_room = known.room(device).memory >= hold.memory and device.uuid not in hold.devices
            if device.claimed_as and has_room and not request.may_share(device.uuid):
                yield device.claimed_as

    def _rule(self, pod: Pod, node: str, device: str, key: str) -> Json:
        uid = pod.metadata.uid
        digest = sha256(f"{node}/{device}/{key}".encode()).hexdigest()[:12]
        return {
            "metadata": {"name": f"{claim_names.RULE_PREFIX}{uid}-{digest}", "labels": {names.HOLD_OF: uid}},
            "spec": {
                "deviceSelector": {"driver": self._driver, "pool": node, "device": device},
                "taint": {"key": names.HELD_TAINT, "value": key, "effect": "NoSchedule"},
            },
        }

    def _write(self, body: Json) -> None:
        try:
            self._kube.create(TAINT_RULES, body)
        except Conflict:
            return  # it stands already: the same pod, device and value have the same name
        log.info("a device of claims is kept", rule=body["metadata"]["name"], device=body["spec"])

    def _remove(self, rule: TaintRule) -> None:
        name, uid = rule.metadata.name, rule.metadata.uid
        try:
            self._kube.delete(TAINT_RULES, name, uid=uid)
        except (Conflict, NotFound):
            pass  # another one has its name, or it is gone
        except ApiError as error:
            self._failures.note("taint rule", name, error)
            return
        self._removed[name] = uid
