"""*Now* as a template reads it: nodes with their devices, totals, and who would be evicted next. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import msgspec

from booking import wording
from booking.server.cluster_status import (
    DeviceNow,
    DeviceState,
    HolderClass,
    HolderNow,
    ModelNow,
    NextNow,
    NodeNow,
    Now,
    SquatterNow,
    Standing,
)
from booking.server.store_records import Block
from booking.server.web.pages.form_result import blocked_gpus, model_title
from booking.server.web.pages.now_filter import CARDS, NowFilter
from booking.server.web.pages.site_clock import SiteClock

WORDS: Final[Mapping[DeviceState, str]] = {
    "booked": "in use",
    "opportunistic": "lent",
    "held": "in use: kept",
    "free": "in maintenance",
    "unhealthy": "unhealthy",
    "partitioned": "partitioned",
}
"""State -> word for people, where the state alone says it: one that nobody holds is free only in maintenance.
"""
STANDINGS: Final[Mapping[Standing, str]] = {
    "bookable": "bookable",
    "lent": "lent",
    "idle_though_booked": "idle though booked",
    "in_use": "in use",
}
"""The words of docs/vocabulary.md, in the order in which they are counted."""
CLASSES: Final[Mapping[HolderClass, str]] = {
    "booked": "booked",
    "protected": "protected",
    "granted": "granted",
    "expired": "booking over",
    "opportunistic": "not booked",
}
"""The right by which a pod holds a GPU that no booking covers -> word for people."""
_GROUP: Final = 20
"""Nodes of the map that are sent together when one has changed."""
_AWAY: Final = "away"
_AWAY_WORD: Final = "out of reach"
_GIB: Final = 1024
"""MiB in a GiB."""
_MOST: Final = 8
"""Maximum number of pods of a model that are shown in the order of eviction."""


@dataclass(frozen=True)
class Tile:
    """A device as the page shows it."""

    index: int
    uuid: str
    model: str
    state: str
    """Its standing; of one without, its state or ``away``."""
    word: str
    why: str
    holders: tuple["Holder", ...]
    shares: str
    """What its sharers have together, of what it offers; empty if it is not held in shares."""
    is_mine: bool
    use: "Load | None"
    squatters: tuple[str, ...]
    """A message for each process that runs on it without holding it."""


@dataclass(frozen=True)
class Load:
    """How busy a device is, in texts."""

    percent: int | None
    """Percentage of the time; None if the card does not report it."""
    memory: str
    """Memory in use, out of the total."""
    heat: str
    """Temperature and power, as far as they are known."""


@dataclass(frozen=True)
class Holder:
    """A pod that holds a device."""

    name: str
    address: str | None
    """Address of its explanation; None for a pod that the viewer may not see."""
    user: str
    until: str
    memory: str
    """Its share, and the memory that its processes use, as far as there is one and that is known."""


@dataclass(frozen=True)
class NodeCard:
    """A node and its devices."""

    name: str
    state: str
    why: str
    models: str
    standings: str
    """How many of its devices stand in which way."""
    tiles: tuple[Tile, ...]
    maintenance: tuple[str, ...]


@dataclass(frozen=True)
class Turn:
    """A pod in the order of eviction."""

    position: int
    name: str
    address: str | None
    user: str
    gpus: int
    node: str
    why: str
    is_mine: bool


@dataclass(frozen=True)
class Queue:
    """The pods of one model in the order in which they would be evicted."""

    title: str
    turns: tuple[Turn, ...]
    more: int


@dataclass(frozen=True)
class MapNode:
    """A node in the map of all nodes: a link to its card, and a square for each device."""

    name: str
    address: str
    is_ready: bool
    squares: tuple[str, ...]
    """The state of each device, as of its tile."""
    text: str


@dataclass(frozen=True)
class ModelRow:
    """How the devices of a model stand."""

    title: str
    label: str
    address: str
    counts: ModelNow


@dataclass(frozen=True)
class NowOverview:
    """Everything that the page *Now* shows."""

    counts: tuple[tuple[str, str, int], ...]
    """(state, its word, number of devices in it), of all devices."""
    models: tuple[ModelRow, ...]
    map: tuple[tuple[MapNode, ...], ...]
    """All nodes that the filter leaves, in groups; empty where all have a card."""
    nodes: tuple[NodeCard, ...]
    """Those of this page."""
    shown: str
    earlier: str | None
    later: str | None
    queues: tuple[Queue, ...]


def now_overview(
    now: Now, blocks: Sequence[Block], clock: SiteClock, user: str, *, wanted: NowFilter | None = None
) -> NowOverview:
    """The cluster at one instant, as the page shows it to a user."""
    wanted = wanted or NowFilter()
    some = [node for node in now.nodes if wanted.shows(node, user)]
    page = min(wanted.page, max(0, len(some) - 1) // CARDS)
    first, after = page * CARDS, page * CARDS + CARDS
    cards = tuple(_card(_left(node, wanted, user), blocks, clock, user) for node in some[first:after])
    at = [_map_node(_left(node, wanted, user), wanted) for node in some] if len(some) > CARDS else []
    return NowOverview(
        counts=tuple(_counts(now)),
        models=tuple(
            ModelRow(model_title(one.model), one.model, replace(wanted, model=one.model, page=0).address, one)
            for one in now.models
        ),
        map=tuple(tuple(at[begin : begin + _GROUP]) for begin in range(0, len(at), _GROUP)),
        nodes=cards,
        shown=f"Nodes {first + 1} to {min(after, len(some))} of {len(some)}" if at else "",
        earlier=replace(wanted, page=page - 1).address if page else None,
        later=replace(wanted, page=page + 1).address if after < len(some) else None,
        queues=tuple(_queues(now.next, user)),
    )


def _left(node: NodeNow, wanted: NowFilter, user: str) -> NodeNow:
    return msgspec.structs.replace(node, devices=wanted.devices(node, user))


def _counts(now: Now) -> Iterator[tuple[str, str, int]]:
    """The words of docs/vocabulary.md, as the models have them; then what has none of them."""
    for standing, word in STANDINGS.items():
        numbers = [getattr(model, standing) for model in now.models]
        if numbers and None not in numbers:
            yield standing, word, sum(numbers)
    rest = Counter(
        _state(device, is_away=node.state != "ready")
        for node in now.nodes
        for device in node.devices
        if device.standing is None
    )
    for state, word in (*WORDS.items(), (_AWAY, _AWAY_WORD)):
        if rest[state]:
            yield state, word, rest[state]


def _map_node(node: NodeNow, wanted: NowFilter) -> MapNode:
    is_away = node.state != "ready"
    return MapNode(
        name=node.node,
        address=f"{replace(wanted, node=node.node, page=0).address}#nodes",
        is_ready=not is_away,
        squares=tuple(_state(device, is_away=is_away) for device in node.devices),
        text=_standings(node),
    )


def _standings(node: NodeNow) -> str:
    """``3 lent, 5 in use``."""
    is_away = node.state != "ready"
    words: dict[str, str] = dict(WORDS.items()) | dict(STANDINGS.items()) | {_AWAY: _AWAY_WORD}
    found = Counter(_state(device, is_away=is_away) for device in node.devices)
    return ", ".join(f"{found[state]} {word}" for state, word in words.items() if found[state])


def _state(device: DeviceNow, *, is_away: bool) -> str:
    if device.standing:
        return device.standing
    return _AWAY if is_away and device.state == "free" else device.state


def _card(node: NodeNow, blocks: Sequence[Block], clock: SiteClock, user: str) -> NodeCard:
    whole = [device for device in node.devices if device.state != "partitioned"]
    tiles = tuple(_tile(device, clock, user, is_away=node.state != "ready") for device in node.devices)
    models = Counter(model_title(device.model) for device in whole)
    return NodeCard(
        name=node.node,
        state=node.state,
        why=node.why or "",
        models=wording.listed(f"{count} \N{MULTIPLICATION SIGN} {model}" for model, count in models.items()),
        standings=_standings(node),
        tiles=tiles,
        maintenance=tuple(_block(block, clock) for block in blocks if block.node == node.node),
    )


def _tile(device: DeviceNow, clock: SiteClock, user: str, *, is_away: bool) -> Tile:
    """A device; a free one is shown as unavailable if its node's agent does not respond."""
    state = _state(device, is_away=is_away)
    return Tile(
        index=device.index,
        uuid=device.uuid,
        model=model_title(device.model),
        state=state,
        word=_AWAY_WORD if state == _AWAY else _word(device),
        why=clock.localized(device.why or ""),
        holders=tuple(_holder(pod, clock) for pod in device.pods),
        shares=_shares(device),
        is_mine=any(pod.user == user for pod in device.pods),
        use=_load(device),
        squatters=tuple(map(_squatter, device.squatters)),
    )


def _word(device: DeviceNow) -> str:
    """How a device stands; if a pod holds it, with the right by which it does."""
    if device.standing in {None, "bookable", "idle_though_booked"} or device.state == "held":
        return (
            STANDINGS[device.standing] if device.standing and device.state == "free" else WORDS[device.state]
        )
    rights = dict.fromkeys(CLASSES[pod.holder_class] for pod in device.pods)
    return f"{STANDINGS[device.standing]}: {wording.listed(rights)}" if device.standing else ""


def _load(device: DeviceNow) -> Load | None:
    use = device.use
    if use is None:
        return None
    heat = [
        None if use.temperature_celsius is None else f"{use.temperature_celsius} \N{DEGREE SIGN}C",
        None if use.power_watts is None else f"{use.power_watts} W",
    ]
    return Load(
        percent=use.utilisation_percent,
        memory="" if use.memory_used_mib is None else _filled(use.memory_used_mib, device.memory_mib),
        heat=" \N{MIDDLE DOT} ".join(one for one in heat if one),
    )


def _filled(used: int, whole: int) -> str:
    return f"{used / _GIB:.1f} of {_gibibytes(whole)}" if whole else _gibibytes(used)


def _gibibytes(mib: int) -> str:
    return f"{mib / _GIB:.1f} GiB"


def _squatter(one: SquatterNow) -> str:
    if not one.of_pod:
        whose = "of no pod"
    elif one.name is None:
        whose = "of a pod that does not hold it"
    else:
        whose = f"of {_name(one.namespace, one.name) if one.namespace else one.name}, which does not hold it,"
    process = "A process" if one.pid is None else f"Process {one.pid} ({one.command})"
    used = "" if one.memory_used_mib is None else f", with {_gibibytes(one.memory_used_mib)}"
    return f"{process} {whose} runs on it{used}."


def _holder(pod: HolderNow, clock: SiteClock) -> Holder:
    return Holder(
        name=_name(pod.namespace, pod.name),
        address=_address(pod.namespace, pod.name),
        user=pod.user or ("nobody" if pod.name else "somebody"),
        until=clock.moment(pod.until) if pod.until else "",
        memory=_part(pod),
    )


def _shares(device: DeviceNow) -> str:
    """``24.0 of 79.1 GiB, 3 pods``."""
    shares = device.shares
    if shares is None:
        return ""
    return f"{_filled(shares.memory_mib, shares.offered_mib)}, {wording.counted(shares.pods, 'pod')}"


def _part(pod: HolderNow) -> str:
    used = None if pod.memory_used_mib is None else _gibibytes(pod.memory_used_mib)
    if pod.share is None:
        return used or ""
    compute = f" and {pod.share.compute_percent} %" if pod.share.compute_percent else ""
    share = f"has {_gibibytes(pod.share.memory_mib)}{compute}"
    more = " (more than its share)" if (pod.memory_used_mib or 0) > pod.share.memory_mib else ""
    return f"{share}, uses {used}{more}" if used else share


def _block(block: Block, clock: SiteClock) -> str:
    what = blocked_gpus(block)
    begins = "now" if block.start <= clock.now else f"from {clock.moment(block.start)}"
    return f"Maintenance, {what}, {begins} until {clock.moment(block.end)}: {block.reason}"


def _queues(following: Sequence[NextNow], user: str) -> Iterator[Queue]:
    for model, group in groupby(following, key=lambda one: one.model):
        turns = [_turn(one, position, user) for position, one in enumerate(group, start=1)]
        shown = [turn for turn in turns if turn.position <= _MOST or turn.is_mine]
        yield Queue(model_title(model), tuple(shown), len(turns) - len(shown))


def _turn(one: NextNow, position: int, user: str) -> Turn:
    return Turn(
        position=position,
        name=_name(one.namespace, one.name),
        address=_address(one.namespace, one.name),
        user=one.user or ("nobody" if one.name else "somebody"),
        gpus=one.gpus,
        node=one.node,
        why=one.why,
        is_mine=one.user == user,
    )


def _name(namespace: str | None, name: str | None) -> str:
    return f"{namespace}/{name}" if name else "somebody's pod"


def _address(namespace: str | None, name: str | None) -> str | None:
    return f"/why/{namespace}/{name}" if name else None
