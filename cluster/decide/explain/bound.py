"""Messages about a bound pod: where it runs, why it has those GPUs, and which pods may take them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

from cluster import names
from cluster.decide.explain.snapshot import ExplanationSnapshot, at, capital, counted, listed
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.predicates import AGENT, not_given
from cluster.decide.protection import is_stuck, lasting_protection
from cluster.decide.request import gpu_request_of
from cluster.objects.assignment import AssignmentError, assignment_of, devices_of
from cluster.objects.bookings import Booking
from cluster.objects.device_selector import device_selector_of
from cluster.objects.device_usage import OverUser
from cluster.objects.evict_orders import order_of
from cluster.objects.given_devices import given_devices
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_terminating

ANY_TIME: Final = "A booked pod that finds no free GPU may take its GPUs at any time."


def where(pod: Pod, snapshot: ExplanationSnapshot, booking: Booking | None) -> Iterator[str]:
    """The node and devices of a bound pod."""
    node, holding = pod.spec.node_name, snapshot.holding(pod)
    node_snapshot = snapshot.node_snapshots.get(node or "")
    if node_snapshot is None or holding is None:
        yield f"It is bound to {node}, and holds no GPU that is known."
        return
    view, agent = node_snapshot
    if holding.devices:
        yield from _holds(holding, {device.uuid: device for device in view.devices})
        if view.is_numbered:
            chosen = snapshot.given.get(pod.metadata.uid) or given_devices(pod)
            what = f"has chosen {listed(sorted(chosen))}" if chosen else "has chosen"
            yield f"Another device plugin gives out its GPUs: GPU Booking counts, and the kubelet {what}."
        elif holding.claimed:
            yield "kube-scheduler chose among the GPUs that its claim accepts."
            if memory := sum(part.memory for part in holding.devices.values()):
                yield f"By its claim it has {memory} MiB there; what is left is for other claims."
        else:
            yield from _choice(pod, frozenset(holding.devices), booking)
    else:
        yield f"It is on {node}; it is not known which GPUs it holds."
    yield from _never_starts(pod, view)
    if booking and any(place.node == node for place in booking.spec.places):
        yield "Its booking is planned on this node."
    yield from _too_much(pod, snapshot)
    if agent != "alive":
        yield f"{capital(AGENT[agent])[:-1]}: nothing is given or taken there."


def _never_starts(pod: Pod, view: NodeView) -> Iterator[str]:
    """That its driver refuses what its claims have: somebody else has bound it."""
    may_be = pod.claims and pod.claims.refused and pod.status.phase == "Pending"
    if may_be and (reason := not_given(gpu_request_of(pod), view)):
        yield f"It cannot start, and has its GPUs in vain: {reason}."


def _too_much(pod: Pod, snapshot: ExplanationSnapshot) -> Iterator[str]:
    one = snapshot.over_users.get(pod.metadata.uid)
    if one is not None:
        who, share = ("It uses", "its share") if one.pods == 1 else (_together(one), "their share")
        yield (
            f"{who} {one.used} MiB of GPU {one.device}, and {share} is {one.limit} MiB: others on this"
            " GPU may find too little memory."
        )
        if snapshot.evicts_over_users and pod.metadata.uid not in snapshot.cover:
            yield "An administrator has set that pods without a booking are evicted for that."


def _together(one: OverUser) -> str:
    others = one.pods - 1
    return f"It and {counted(others, 'more pod')} of its claim use"


def _holds(holding: PodHoldings, devices: Mapping[str, Device]) -> Iterator[str]:
    found = sorted((devices[uuid] for uuid in holding.devices if uuid in devices), key=lambda one: one.index)
    if found:
        numbers = listed(str(device.index) for device in found)
        models = listed(sorted({_kind(device) for device in found}))
        noun = "GPU" if len(found) == 1 else "GPUs"
        yield f"It is on {holding.node} and holds {noun} {numbers} ({models})."
    if lost := sorted(holding.devices.keys() - devices.keys()):
        yield f"Of what it was given, {holding.node} does not know {listed(lost)} any more."
    if (unknown := sum(holding.unknown.values()) - len(lost)) > 0:
        yield f"Of {counted(unknown, 'more GPU')} that it asks for, it is not known which it holds."
    for device in found:
        if not device.is_healthy:
            why = (device.reason or "no reason is known").rstrip(".")
            yield f"GPU {device.index} is not healthy: {why}."


def _kind(device: Device) -> str:
    """The device's model, followed by its MIG profile unless the model names that already."""
    is_named = device.profile is None or device.profile in device.model
    return device.model if is_named else f"{device.model}, {device.profile}"


def _choice(pod: Pod, has: frozenset[str], booking: Booking | None) -> Iterator[str]:
    """Who chose its devices, and by which criterion."""
    try:
        assignment = assignment_of(pod)
    except AssignmentError:
        assignment = None
    if assignment is None:
        yield "The kubelet chose among its GPUs: the pod was bound by somebody else than GPU Booking."
        return
    chosen = devices_of(assignment)
    if chosen != has:
        many = "GPUs" if len(chosen) != 1 else "GPU"
        yield f"The kubelet gave it others than the {many} that {'were' if many == 'GPUs' else 'was'} chosen."
        return
    them = "them" if len(has) > 1 else "it"
    yield f"GPU Booking chose {them} when the pod was bound: {_criterion(pod, booking)}."


def _criterion(pod: Pod, booking: Booking | None) -> str:
    if booking:
        return f"its booking is for {booking.spec.model}"
    selector = device_selector_of(pod)
    if selector.of_model == selector.text:
        models = " or ".join(sorted(selector.models))
        return f"it asks for {models}" if models else "it takes any model"
    return f"it asks for a GPU{selector.text}"


def taking(
    pod: Pod, snapshot: ExplanationSnapshot, booking: Booking | None, granted: datetime | None
) -> Iterator[str]:
    """Which pods may take the GPUs of a bound pod, and when."""
    order = order_of(pod)
    if order:
        yield f"{order.by}, an administrator, has ordered it to go: {order.reason.rstrip('.')}."
    beneficiary = snapshot.needed_by(pod.metadata.uid)
    if notice := pod.metadata.annotation(names.NOTICE):
        yield notice
    elif beneficiary:
        yield "A booked pod needs its GPUs: it must leave."
    elif booking:
        until = at(booking.spec.end)
        yield f"Nobody takes its GPUs before {until}, unless an administrator does so by name and reason."
    else:
        yield _unbooked(pod, snapshot, granted)


def _unbooked(pod: Pod, snapshot: ExplanationSnapshot, granted: datetime | None) -> str:
    holding = snapshot.holding(pod)
    lasting = lasting_protection(pod, holding, namespaces=snapshot.namespaces, home=snapshot.home)
    if lasting:
        return f"Its GPUs are not taken for bookings: {lasting}."
    if granted and granted > snapshot.now:
        return f"MAIA has granted it its GPUs until {at(granted)}; afterwards a booked pod may take them."
    return ANY_TIME


def leaving(pod: Pod, snapshot: ExplanationSnapshot) -> Iterator[str]:
    """Sentences about a pod that is terminating, or has been ordered to go."""
    if order := order_of(pod):
        yield f"{order.by}, an administrator, has ordered it to go: {order.reason.rstrip('.')}."
    if is_stuck(pod, snapshot.now):
        yield "It has been terminating for too long: its node may hang. Its GPUs are not counted on."
    elif is_terminating(pod):
        yield "It is terminating, and holds its GPUs until its containers have ended."
