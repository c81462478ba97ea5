"""A user's booking as a template reads it: its texts, its countdown, and the possible actions. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

from booking import wording
from booking.eviction import end_effects
from booking.eviction.settings import EvictionSettings
from booking.server.records import Record, State
from booking.server.web.pages.form_result import FormAnswer, gpus
from booking.server.web.pages.risks import Risk
from booking.server.web.pages.site_clock import SiteClock, utc_seconds
from booking.server.web.pages.snippets import snippet
from cluster import names

_WORDS: Final[dict[State, str]] = {"active": "running", "planned": "planned"}


@dataclass(frozen=True)
class Act:
    """An action on a booking: a button, perhaps with a field."""

    verb: str
    title: str
    button: str
    field: str = ""
    """Name of its one field; empty: it has none."""
    type: Literal["datetime-local", "number"] = "datetime-local"
    """HTML type of that field."""
    label: str = ""
    value: str = ""
    hint: str = ""
    is_critical: bool = False
    is_open: bool = False
    answer: FormAnswer | None = None


@dataclass(frozen=True)
class Card:
    """A running or planned booking as the page shows it."""

    id: str
    title: str
    state: State
    state_word: str
    start: str
    end: str
    start_iso: str
    end_iso: str
    length: str
    done: str
    """Percentage of its time that has passed."""
    before_count: str
    """The label of the countdown: ``Starts in``."""
    countdown: str
    over: str
    """The text when the countdown ends while the page is open."""
    seconds: int
    turn_iso: str
    where: str
    namespace: str
    in_namespace: str
    pods: tuple[str, ...] | None
    booked_by: str
    version: str
    share: str
    """A message that no single pod can have all its GPUs, and how pods share them; empty if one can."""
    snippet: str
    risk: Risk | None
    acts: tuple[Act, ...]


@dataclass(frozen=True)
class Past:
    """The row of a past booking."""

    id: str
    state: State
    title: str
    start: str
    end: str
    note: str


def card_of(
    record: Record,
    clock: SiteClock,
    *,
    pods: tuple[str, ...] | None,
    risk: Risk | None,
    terms: EvictionSettings,
    resource: str = names.GPU_RESOURCE,
) -> Card:
    """The card of a booking.

    Args:
        record: the booking.
        clock: the site's clock.
        pods: the pods that it covers; None while that is not known.
        risk: why it cannot be kept; None if it can.
        terms: what happens to its pods.
        resource: the resource under which pods request its model.
    """
    state = record.state(clock.now)
    turn = record.end if state == "active" else record.start
    passed = (clock.now - record.start) / (record.end - record.start)
    return Card(
        id=record.id,
        title=gpus(record.count, record.model, record.memory),
        state=state,
        state_word=_WORDS[state],
        start=clock.moment(record.start),
        end=clock.moment(record.end),
        start_iso=utc_seconds(record.start),
        end_iso=utc_seconds(record.end),
        length=clock.length(record.start, record.end),
        done=f"{100 * min(1.0, max(0.0, passed)):.1f}",
        before_count="Ends in" if state == "active" else "Starts in",
        countdown=clock.until(turn),
        over="It is over: load the page again." if state == "active" else "It runs: load the page again.",
        seconds=int((turn - clock.now).total_seconds()),
        turn_iso=utc_seconds(turn),
        where=_where(record),
        namespace=record.namespace or "all of yours",
        in_namespace=f" in the namespace {record.namespace}" if record.namespace else "",
        pods=pods,
        booked_by=record.created_by,
        version=record.version,
        share=_share(record),
        snippet=snippet(record, resource, gpus=_places(record)[0], driver=terms.dra_driver),
        risk=risk,
        acts=_acts(record, state, clock, terms),
    )


def past_of(record: Record, clock: SiteClock) -> Past:
    """The row of a booking that is over."""
    by = f"by {record.ended_by}" if record.ended_by else ""
    note = ": ".join(text for text in (by, record.reason or "") if text)
    if not note and record.released:
        note = "given back early"
    return Past(
        id=record.id,
        state=record.state(clock.now),
        title=gpus(record.count, record.model, record.memory),
        start=clock.moment(record.start),
        end=clock.moment(record.end),
        note=note,
    )


def _where(record: Record) -> str:
    if not record.places:
        return "on one node" if record.topology == "single-node" else "on any nodes"
    names_of = wording.listed(place.node for place in record.places)
    # The plan may change until pods run.
    return f"{names_of} (planned)" if record.topology == "single-node" else f"any nodes (planned: {names_of})"


def _acts(record: Record, state: State, clock: SiteClock, terms: EvictionSettings) -> tuple[Act, ...]:
    length = Act(
        verb="length",
        title="Extend or shorten",
        button="Change the end",
        field="end",
        label="New end",
        value=clock.field(record.end),
    )
    resize = Act(
        verb="resize",
        title="More or fewer GPUs",
        button="Change the number",
        field="count",
        type="number",
        label="GPUs",
        value=str(record.count),
    )
    if state == "active":
        end = Act(
            verb="release",
            title="Release",
            button="Release now",
            hint=f"It ends at once, and that cannot be undone. {end_effects.before(terms)}"
            " The wait for your next booking counts from now.",
            is_critical=True,
        )
        return length, resize, end
    move = Act(
        verb="move",
        title="Move",
        button="Move",
        field="start",
        label="New start",
        value=clock.field(record.start),
        hint=f"Its length stays the same: {clock.length(record.start, record.end)}.",
    )
    cancel = Act(
        verb="cancel",
        title="Cancel",
        button="Cancel this booking",
        hint="Its GPUs become free for others, and it does not count as a booking of yours.",
        is_critical=True,
    )
    return length, move, resize, cancel


def _places(record: Record) -> list[int]:
    """The GPUs that one pod can have, for each node, most first."""
    return sorted((place.count for place in record.places), reverse=True) or [record.count]


def _share(record: Record) -> str:
    most, *more = _places(record)
    if not more:
        return ""
    *head, last = (str(count) for count in (most, *more))
    return (
        f"A pod runs on one node, and these {record.count} GPUs are planned on {len(more) + 1}: let several"
        f" pods share the booking, for example of {wording.listed(head)} and {last} GPUs. This one asks for"
        f" {most}."
    )
