"""*Now* as a template reads it: nodes with their devices, totals, and who would be evicted next. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from booking import wording
from booking.cluster_status import (
    DeviceNow,
    DeviceState,
    HolderClass,
    HolderNow,
    NextNow,
    NodeNow,
    Now,
    SquatterNow,
)
from booking.store_records import Block
from booking.web.pages.form_result import blocked_gpus, model_title
from booking.web.pages.site_clock import SiteClock

WORDS: Final[Mapping[DeviceState, str]] = {
    "booked": "booked",
    "opportunistic": "not booked",
    "held": "kept",
    "free": "free",
    "unhealthy": "unhealthy",
    "partitioned": "partitioned",
}
"""State -> word for people, in the order in which states are counted."""
CLASSES: Final[Mapping[HolderClass, str]] = {
    "booked": "booked",
    "protected": "protected",
    "granted": "granted",
    "expired": "booking over",
    "opportunistic": "not booked",
}
"""The right by which a pod holds a GPU that no booking covers -> word for people."""
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
    word: str
    why: str
    holders: tuple["Holder", ...]
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
    """Memory that its processes use."""


@dataclass(frozen=True)
class NodeCard:
    """A node and its devices."""

    name: str
    state: str
    why: str
    models: str
    free: int
    count: int
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
class NowOverview:
    """Everything that the page *Now* shows."""

    counts: tuple[tuple[str, str, int], ...]
    """(state, its word, number of devices in it)."""
    nodes: tuple[NodeCard, ...]
    queues: tuple[Queue, ...]


def now_overview(now: Now, blocks: Sequence[Block], clock: SiteClock, user: str) -> NowOverview:
    """The cluster at one instant, as the page shows it to a user."""
    nodes = tuple(_card(node, blocks, clock, user) for node in now.nodes)
    totals = Counter(tile.state for node in nodes for tile in node.tiles)
    words: dict[str, str] = dict(WORDS.items()) | {_AWAY: _AWAY_WORD}
    return NowOverview(
        counts=tuple((state, word, totals[state]) for state, word in words.items() if totals[state]),
        nodes=nodes,
        queues=tuple(_queues(now.next, user)),
    )


def _card(node: NodeNow, blocks: Sequence[Block], clock: SiteClock, user: str) -> NodeCard:
    whole = [device for device in node.devices if device.state != "partitioned"]
    tiles = tuple(_tile(device, clock, user, is_away=node.state != "ready") for device in node.devices)
    models = Counter(model_title(device.model) for device in whole)
    return NodeCard(
        name=node.node,
        state=node.state,
        why=node.why or "",
        models=wording.listed(f"{count} \N{MULTIPLICATION SIGN} {model}" for model, count in models.items()),
        free=sum(tile.state == "free" for tile in tiles),
        count=len(whole),
        tiles=tiles,
        maintenance=tuple(_block(block, clock) for block in blocks if block.node == node.node),
    )


def _tile(device: DeviceNow, clock: SiteClock, user: str, *, is_away: bool) -> Tile:
    """A device; a free one is shown as unavailable if its node's agent does not respond."""
    is_lost = is_away and device.state == "free"
    return Tile(
        index=device.index,
        uuid=device.uuid,
        model=model_title(device.model),
        state=_AWAY if is_lost else device.state,
        word=_AWAY_WORD if is_lost else _word(device),
        why=clock.localized(device.why or ""),
        holders=tuple(_holder(pod, clock) for pod in device.pods),
        is_mine=any(pod.user == user for pod in device.pods),
        use=_load(device),
        squatters=tuple(map(_squatter, device.squatters)),
    )


def _word(device: DeviceNow) -> str:
    """A device's state in words; if pods hold it without a booking, the right by which they do."""
    if device.state != "opportunistic":
        return WORDS[device.state]
    rights = dict.fromkeys(CLASSES[pod.holder_class] for pod in device.pods)
    return wording.listed(rights) or WORDS[device.state]


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
        memory="" if pod.memory_used_mib is None else _gibibytes(pod.memory_used_mib),
    )


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
