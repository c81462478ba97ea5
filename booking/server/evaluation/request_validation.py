"""Validation of a request apart from the rules: impossible amounts, models and instants. Pure.

``booking.server.evaluation.evaluate`` runs it first; its violations go into the same list as broken rules.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final

from booking import durations, wording
from booking.server.capacity.capacity import Capacity
from booking.server.records import Record, Violation
from booking.server.rule_context import RuleContext
from cluster import names
from cluster.objects.bookings import Topology

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""An RFC 1123 label, as Kubernetes requires for a namespace's name."""
_LONGEST_MODEL: Final = 200


def of_demand(
    model: str, count: int, *, topology: Topology, memory: int | None = None, capacity: Capacity
) -> Iterator[Violation]:
    """Everything that is wrong with the requested devices at any time; ``memory`` is MiB of each."""
    known = model in capacity.devices
    if not known:
        yield unknown_model(model, capacity)
    if count < 1:
        yield Violation(
            rule="count-below-one",
            message=f"A booking is for at least 1 GPU, not {count}.",
            limit=1,
            actual=count,
        )
    elif known:
        yield from _too_many(model, count, topology=topology, capacity=capacity)
    else:
        yield from _more_than_all(count, capacity)
    if memory is not None:
        yield from _of_shares(model, memory, capacity)


def _of_shares(model: str, memory: int, capacity: Capacity) -> Iterator[Violation]:
    offered = capacity.memories.get(model)
    if memory < 1:
        yield Violation(
            rule="memory-below-one",
            message=f"A share of a GPU has at least 1 MiB of its memory, not {memory}.",
            limit=1,
            actual=memory,
        )
    elif model in capacity.devices and offered is None:
        yield Violation(rule="not-shared", message=_not_shared(model, capacity), actual=memory)
    elif offered is not None and memory > offered:
        yield Violation(
            rule="more-memory-than-a-gpu-has",
            message=f"A share of {wording.mebibytes(memory)} of a GPU of model {model} cannot be booked: "
            f"each offers {wording.mebibytes(offered)} ({offered} MiB) to shares.",
            limit=offered,
            actual=memory,
        )


def of_kind(had: Record | None, memory: int | None) -> Iterator[Violation]:
    """A violation if a booking of whole GPUs would become one of shares, or the other way round."""
    if had is not None and (had.memory is None) != (memory is None):
        kind, other = ("whole GPUs", "shares") if had.memory is None else ("shares", "whole GPUs")
        yield Violation(
            rule="another-kind",
            message=f"The booking {had.id} is of {kind} and cannot become one of {other}: book those anew.",
        )


def _not_shared(model: str, capacity: Capacity) -> str:
    if names.mig_profile(model) is not None:
        return f"A MIG device is not shared: book {model} without a memory."
    if model in capacity.unmeasured:
        return f"GPUs of model {model} are not shared, because their memory is not known: book whole ones."
    return (
        f"Not all GPUs of model {model} can be booked in shares here, for example because another device"
        " plugin gives them out: book whole ones."
    )


def of_namespace(namespace: str | None) -> Iterator[Violation]:
    """A violation if no namespace can have this name."""
    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        yield Violation(
            rule="not-a-namespace",
            message=f"No namespace can be called {wording.quoted(namespace)}: "
            'names are lower-case letters, digits and "-", at most 63.',
            actual=wording.clipped(namespace),
        )


def of_question(
    model: str | None, start: datetime, end: datetime, *, capacity: Capacity
) -> tuple[Violation, ...]:
    """Everything that is wrong with a query about a span of the calendar, for one model or for all."""
    wrong = [unknown_model(model, capacity)] if model is not None and model not in capacity.devices else []
    malformed = [*of_instants(start=start, end=end)]
    backwards = () if malformed else _backwards(start, end)
    return (*wrong, *malformed, *backwards)


def unknown_model(model: str, capacity: Capacity) -> Violation:
    """The violation that no node has GPUs of this model; its message names the existing models."""
    if not capacity.devices:
        offer = "no node reports GPUs at present."
    else:
        nearest = _nearest(model, capacity.models)
        hint = f"did you mean {nearest}? " if nearest else ""
        there = "There" if hint else "there"
        offer = f"{hint}{there} are {wording.listed(capacity.models)}."
    return Violation(
        rule="unknown-model",
        message=f"There is no GPU model {wording.quoted(model)} here: {offer}",
        limit=wording.listed(capacity.models),
        actual=wording.clipped(model),
    )


def _nearest(model: str, models: tuple[str, ...]) -> str | None:
    """The known model that the user probably meant; None if none is similar."""
    folded = {known.casefold(): known for known in models}
    wanted = model[:_LONGEST_MODEL].casefold()
    containing = [known for known in folded if wanted and wanted in known]
    close = containing or get_close_matches(wanted, folded, n=1)
    return folded[close[0]] if close else None


def _too_many(model: str, count: int, *, topology: Topology, capacity: Capacity) -> Iterator[Violation]:
    total, largest = capacity.total(model), capacity.largest(model)
    if count > total:
        yield Violation(
            rule="more-than-exist",
            message=f"{wording.counted(count, 'GPU')} of model {model} cannot be booked: there are {total}.",
            limit=total,
            actual=count,
        )
    elif topology == "single-node" and count > largest:
        yield Violation(
            rule="more-than-one-node-has",
            message=f"{wording.counted(count, 'GPU')} of model {model} on one node cannot be booked: "
            f'no node has more than {largest}. With topology "any" they may be on several.',
            limit=largest,
            actual=count,
        )


def _more_than_all(count: int, capacity: Capacity) -> Iterator[Violation]:
    """Of an unknown model there cannot be more GPUs than of all models together."""
    total = sum(capacity.total(model) for model in capacity.models)
    if count > total > 0:
        yield Violation(
            rule="more-than-exist",
            message=f"{wording.counted(count, 'GPU')} cannot be booked: there are {total}, of all models.",
            limit=total,
            actual=count,
        )


def of_instants(*, start: datetime | None, end: datetime) -> Iterator[Violation]:
    """Violations if these are not instants: they must have an offset, and exist in UTC."""
    if start is not None:
        yield from of_instant("start", start)
    yield from of_instant("end", end)


def of_instant(what: str, moment: datetime) -> Iterator[Violation]:
    """A violation if this is not an instant; the message calls it ``what``."""
    text = moment.isoformat()
    if moment.utcoffset() is None:
        yield Violation(
            rule="no-offset",
            message=f'The {what} {text} does not say its offset from UTC: let it end with "Z" or "+02:00".',
            actual=text,
        )
    elif not _is_in_calendar(moment):
        yield Violation(
            rule="beyond-the-calendar",
            message=f"The {what} {text} is beyond the calendar.",
            actual=text,
        )


def _is_in_calendar(moment: datetime) -> bool:
    try:
        moment.astimezone(UTC)
    except OverflowError:
        return False
    return True


def of_span(case: RuleContext) -> Iterator[Violation]:
    """Everything that is wrong with a span whose ends are instants in UTC, whatever the limits are."""
    now, had = case.now, case.changing
    yield from _backwards(case.start, case.end)
    if had is not None and had.state(now) == "active":
        yield from _of_a_running_one(case, had)
    elif case.start < now:
        yield Violation(
            rule="starts-in-the-past",
            message=f"It starts at {wording.instant(case.start)}, and it is {wording.instant(now)} already.",
            limit=wording.iso(now),
            actual=wording.iso(case.start),
            earliest_start=now,
        )
    limits = case.limits
    farthest = durations.after(now, limits.farthest, limits.tz)
    if max(case.start, case.end) > farthest:
        yield Violation(
            rule="too-far-ahead",
            message=f"Nothing is booked after {wording.instant(farthest)}, "
            f"{durations.words(limits.farthest)} from now.",
            limit=wording.iso(farthest),
            actual=wording.iso(max(case.start, case.end)),
        )


def _of_a_running_one(case: RuleContext, had: Record) -> Iterator[Violation]:
    if case.start != had.start:
        yield Violation(
            rule="has-begun",
            message=f"The booking {had.id} is running since {wording.instant(had.start)}: "
            "its start cannot be moved any more.",
            limit=wording.iso(had.start),
            actual=wording.iso(case.start),
        )
    if case.start < case.end <= case.now:
        yield Violation(
            rule="ends-in-the-past",
            message=f"It would end at {wording.instant(case.end)}, "
            f"and it is {wording.instant(case.now)} already: release it instead.",
            limit=wording.iso(case.now),
            actual=wording.iso(case.end),
        )


def _backwards(start: datetime, end: datetime) -> Iterator[Violation]:
    if end <= start:
        yield Violation(
            rule="ends-before-it-starts",
            message=f"It ends at {wording.instant(end)}, "
            f"which is not after its start {wording.instant(start)}.",
            limit=wording.iso(start),
            actual=wording.iso(end),
        )
