"""Which devices of claims nobody may be given now, and the DeviceTaintRules that say so. Pure.

kube-scheduler keeps allocated devices in a set. Of two claims with one device the first that gives it back
makes it free, though the other one has it still, and so it stays until that has gone, too: only then do set
and claims agree again. So a device is spoiled from the moment at which two claims have it until none has it.
What the rule that stands for it says cannot be learnt from anything else: it is the memory of that.

Of a device that several claims may have kube-scheduler adds amounts up, which comes right by itself.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from cluster import claim_names, names
from cluster.decide.ledger import NodeView
from cluster.objects.claims import Place

Json = dict[str, Any]


def given_twice(views: Mapping[str, NodeView], conflicts: Mapping[str, tuple[str, ...]]) -> frozenset[Place]:
    """Devices that at least two claims have, of which they have more than there is.

    Args:
        views: node -> its devices and holders.
        conflicts: node -> UUIDs of devices of which more is held than there is.
    """
    return frozenset(
        (node, device.claimed_as)
        for node, uuids in conflicts.items()
        if node in views
        for device in views[node].devices
        if device.claimed_as
        and device.uuid in uuids
        and _number_of_claims(device.claimed_as, views[node]) > 1
    )


def spoiled(
    twice: frozenset[Place], views: Mapping[str, NodeView], standing: Iterable[Place]
) -> frozenset[Place]:
    """Devices that nobody may be given: those given twice, and those that were and that a claim has still.

    Of a node that is not known nothing is: its Node may come back, and claims have its devices meanwhile.

    Args:
        twice: what ``given_twice`` says.
        views: node -> its devices and holders.
        standing: devices for which there is a rule.
    """
    return twice | {place for place in standing if _is_had_whole(place, views)}


def rule_for(place: Place, driver: str) -> Json:
    """The DeviceTaintRule that keeps a device from everybody: the same whoever writes it."""
    node, device = place
    digest = sha256(f"{node}/{device}".encode()).hexdigest()[:16]
    return {
        "metadata": {
            "name": f"{claim_names.CONFLICT_RULE_PREFIX}{digest}",
            "labels": {names.CONFLICT_TAINT: "true"},
        },
        "spec": {
            "deviceSelector": {"driver": driver, "pool": node, "device": device},
            "taint": {"key": names.CONFLICT_TAINT, "value": "true", "effect": "NoSchedule"},
        },
    }


def _is_had_whole(place: Place, views: Mapping[str, NodeView]) -> bool:
    node, device = place
    return node not in views or any(
        one.device == device and not one.memory for each in views[node].holdings for one in each.claimed
    )


def _number_of_claims(device: str, view: NodeView) -> int:
    return len({one.claim for each in view.holdings for one in each.claimed if one.device == device})
