"""The life of a pod as one diagram: our own steps come from ``comeback.next_step``, called for every state.

The steps of others (scheduler, kubelet, the pod's user, our own decisions) are in ``MOVES``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from booking.controller.reclaimer.evictions.comeback import MEANINGS, Comeback, Step, next_step
from cluster import event_reasons, names
from cluster.kube.resources import PodTemplate
from cluster.objects.meta import Meta
from cluster.objects.pods import Condition, Pod, PodSpec, PodStatus
from docs.tables.markdown import code, table

Victim = Literal["live", "leaving", "ended", "deleted", "gone"]
_THEN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_OURS: Final = Condition(type=names.DISRUPTION_TARGET, status="True", reason=event_reasons.BOOKING_ENDED)


@dataclass(frozen=True, slots=True)
class State:
    """The state of a pod that we take away, and of what brings it back."""

    victim: Victim = "live"
    """``leaving``: deleted by us; ``deleted``: deleted by its user."""
    wanted: bool = True
    """Whether it must leave."""
    has_finalizer: bool = False
    """Whether our finalizer is on it."""
    template: Literal["", "stored", "due"] = ""
    returning: Literal["", "finalizer", "free"] = ""
    """The pod that replaces it, with our finalizer or without it."""
    is_name_taken: bool = False
    """Whether somebody else's pod has its name."""
    marked: bool = False
    """Whether its condition says that we take it away, while nobody has deleted it yet."""


RUNS: Final = State(wanted=False)
MUST_LEAVE: Final = State()
BACK: Final = State(victim="gone", returning="free")
GONE: Final = State(victim="gone")
AROUND: Final = (
    ("[*]", "waits", "is created"),
    ("waits", "runs", "is bound, its devices chosen"),
    ("runs", "runs", "its booking ends, action demote"),
    ("runs", "must leave", "a booked pod needs its GPU and it has had its notice, or its booking is over"),
    ("must leave", "gone", "it has a controller, or is not to come back: evicted or deleted"),
    ("back", "waits", "it came back as it was"),
    ("back", "[*]", "it goes on without a GPU"),
    ("gone", "[*]", ""),
)
"""(from, to, why): what comes before and after the steps of ``next_step``."""

Move = Callable[[State], State | None]
MOVES: Final[tuple[tuple[str, Move], ...]] = (
    ("not needed any more", lambda s: replace(s, wanted=False) if _may_stay(s) else None),
    ("its user deletes it", lambda s: replace(s, victim="deleted") if _is_deletable(s) else None),
    (
        "we die as we end it",
        lambda s: replace(s, marked=True) if _is_deletable(s) and s.template else None,
    ),
    ("its containers end", lambda s: replace(s, victim="ended") if s.victim == "leaving" else None),
    ("its name is taken", lambda s: replace(s, is_name_taken=True) if _is_nameless(s) else None),
)
"""What others do -> the state after it; None if it makes no difference."""

EFFECTS: Final[dict[Step, Move]] = {
    "store": lambda s: replace(s, template="stored"),
    "add finalizer": lambda s: replace(s, has_finalizer=True),
    "take": lambda s: replace(s, victim="leaving", marked=False),
    "clear condition": lambda s: replace(s, marked=False),
    "remove finalizer": lambda s: replace(s, has_finalizer=False),
    "forget": lambda s: replace(s, template="", is_name_taken=False),
    "mark due": lambda s: replace(s, template="due"),
    "release victim": lambda s: replace(s, has_finalizer=False, victim="gone"),
    "create": lambda s: replace(s, returning="finalizer"),
    "release": lambda s: replace(s, returning="free"),
}
"""Our step -> the state after it."""


def _may_stay(state: State) -> bool:
    return state.victim == "live" and state.wanted and state != MUST_LEAVE


def _is_deletable(state: State) -> bool:
    """Whether a deletion is clearly its user's, and leaves us something to undo."""
    return _may_stay(state) and state.has_finalizer and not state.marked


def _is_nameless(state: State) -> bool:
    return (
        state.victim == "gone" and state.template == "due" and not state.returning and not state.is_name_taken
    )


def step_in(state: State) -> Step:
    """Our step in this state."""
    return next_step(
        Comeback(
            template=_template(state),
            victim=None if state.victim == "gone" else _victim(state),
            returning=Pod(metadata=_meta(has_finalizer=state.returning == "finalizer"))
            if state.returning
            else None,
            is_name_taken=state.is_name_taken,
            wanted=state.wanted,
        )
    )


def _victim(state: State) -> Pod:
    meta = _meta(
        has_finalizer=state.has_finalizer, terminating=state.victim != "live", ended=state.victim == "ended"
    )
    conditions = (_OURS,) if state.marked or state.victim in ("leaving", "ended") else ()
    return Pod(metadata=meta, spec=PodSpec(node_name="n"), status=PodStatus(conditions=conditions))


def _meta(*, has_finalizer: bool, terminating: bool = False, ended: bool = False) -> Meta:
    return Meta(
        finalizers=(names.COMEBACK,) if has_finalizer else (),
        deletion_timestamp=_THEN if terminating else None,
        deletion_grace_period_seconds=0 if ended else None,
    )


def _template(state: State) -> PodTemplate | None:
    annotations = {names.COMEBACK_DUE: "then"} if state.template == "due" else {}
    return PodTemplate(metadata=Meta(annotations=annotations)) if state.template else None


def edges(start: State = MUST_LEAVE) -> Iterator[tuple[State, State, str]]:
    """(from, to, why) of everything that can happen to a pod that must leave; our steps by their names."""
    known, queue = {start}, [start]
    while queue:
        state = queue.pop(0)
        effect = EFFECTS.get(step := step_in(state))
        moves = [(step, effect(state))] if effect else []
        moves += [(why, move(state)) for why, move in MOVES]
        for why, after in moves:
            if after is None:
                continue
            yield state, after, why
            if after not in known:
                known.add(after)
                queue.append(after)


def label(state: State) -> str:
    """A state in words."""
    known = {RUNS: "runs", MUST_LEAVE: "must leave", BACK: "back", GONE: "gone"}
    if state in known:
        return known[state]
    if state.returning:
        return "back, finalizer" + (f", template {state.template}" if state.template else "")
    what = {
        "live": "must leave" if state.wanted else "may stay",
        "leaving": "terminates",
        "ended": "has ended",
        "deleted": "deleted by its user",
        "gone": "gone, its name taken" if state.is_name_taken else "gone",
    }[state.victim]
    template = [f"template {state.template}"] if state.template else []
    marks = {"finalizer": state.has_finalizer, names.DISRUPTION_TARGET: state.marked}
    return ", ".join([what, *template, *(mark for mark, is_there in marks.items() if is_there)])


def life_diagram() -> str:
    """The life of a pod, in Mermaid."""
    drawn = [*AROUND, *((label(a), label(b), why) for a, b, why in edges())]
    found = dict.fromkeys(name for a, b, _ in drawn for name in (a, b) if name != "[*]")
    ids = {name: f"s{number}" for number, name in enumerate(found)} | {"[*]": "[*]"}
    lines = [f'    state "{name}" as {ids[name]}' for name in found]
    lines += [f"    {ids[a]} --> {ids[b]}{': ' if why else ''}{why}" for a, b, why in drawn]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


def steps_table() -> str:
    """The meaning of each of our steps."""
    return table(("step", "what we do"), ((code(step), meaning) for step, meaning in MEANINGS.items()))
