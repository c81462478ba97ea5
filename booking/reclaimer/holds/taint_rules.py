"""The hold on devices of claims as kube-scheduler sees it: taints that only the pod's claims tolerate.

kube-scheduler chooses the devices of claims itself, and does not ask us. So before a victim leaves, there is
a DeviceTaintRule for each device of the hold, and it is old enough for kube-scheduler to know it: nothing
acknowledges that. Names follow from pod and device: after a crash the same rules are asked for again. Every
rule whose hold is gone is removed, also an earlier process's. A dead controller leaves devices unused, never
given away.
"""

from hashlib import sha256
from typing import Any, Final

import structlog

from booking.reclaimer.context import ReclaimerContext
from booking.reclaimer.recent_requests import RecentRequests
from booking.reclaimer.snapshot import Snapshot
from cluster import claim_names, names
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import TAINT_RULES
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live

log = structlog.get_logger(__name__)

KNOWN_AFTER: Final = 2.0
"""Seconds after which kube-scheduler knows a rule: by experience, since nothing says so."""
SEEN_WITHIN: Final = 5.0
"""Seconds within which our watch delivers a rule that we wrote."""

Json = dict[str, Any]


class TaintRules:
    """Writes and removes the rules of holds. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, driver: str) -> None:
        """Args: driver: the name of our driver of claims."""
        self._context = context
        self._driver = driver
        self._stands: dict[str, float] = {}
        """Name of a rule -> since when it stands for certain; monotonic seconds."""
        self._removed = RecentRequests(context.clock)

    def keep(self, pod: Pod, hold: Hold, snapshot: Snapshot) -> bool:
        """Whether kube-scheduler keeps the hold's devices for the pod; writes the rules that are missing.

        True for a hold on devices that no claim gives. False also where the pod's claims tolerate nothing
        that others do not.

        Raises:
            ApiError: a rule could not be written.
        """
        wanted = self._wanted(pod, hold, snapshot)
        if wanted is None:
            return False
        now = self._context.clock.monotonic()
        for name, body in wanted.items():
            since = self._stands.get(name)
            if name not in snapshot.taint_rules and (since is None or now - since > SEEN_WITHIN):
                self._write(body)
                self._stands[name] = self._context.clock.monotonic()
            elif since is None:
                self._stands[name] = now
        now = self._context.clock.monotonic()
        return all(now - self._stands[name] >= KNOWN_AFTER for name in wanted)

    def sweep(self, snapshot: Snapshot) -> None:
        """Remove the rules of pods that are bound or gone, or whose hold is on other devices."""
        wanted: set[str] = set()
        for uid, hold in snapshot.holds.items():
            pod = snapshot.pods.get(uid)
            if pod is not None and not pod.spec.node_name and is_live(pod):
                wanted |= (self._wanted(pod, hold, snapshot) or {}).keys()
        self._stands = {name: at for name, at in self._stands.items() if name in wanted}
        for name, rule in snapshot.taint_rules.items():
            ours = names.HOLD_OF in (rule.metadata.labels or {})
            if ours and name not in wanted and self._removed.is_due(name):
                self._remove(name)

    def _wanted(self, pod: Pod, hold: Hold, snapshot: Snapshot) -> dict[str, Json] | None:
        """Name -> each rule of the hold; None where it cannot be kept."""
        known = snapshot.node_snapshots.views.get(hold.node)
        devices = {device.uuid: device for device in known.devices} if known else {}
        called = [devices[uuid].claimed_as for uuid in hold.devices if uuid in devices]
        if pod.claims is None:
            return {}
        if len(called) != len(hold.devices) or not pod.claims.key or not all(called):
            return None
        return {
            body["metadata"]["name"]: body
            for body in (self._rule(pod, hold.node, name, pod.claims.key) for name in called if name)
        }

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
            self._context.kube.create(TAINT_RULES, body)
        except Conflict:
            return  # it stands already: the same pod, device and value have the same name
        log.info("a device of claims is kept", rule=body["metadata"]["name"], device=body["spec"])

    def _remove(self, name: str) -> None:
        try:
            self._context.kube.delete(TAINT_RULES, name)
        except NotFound:
            return
        except ApiError as error:
            self._context.failures.note("taint rule", name, error)
