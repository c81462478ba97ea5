"""The answer to the form: that it can be booked, or the violations and the alternatives. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol

from booking import wording
from booking.server.evaluation.alternatives import Why
from booking.server.evaluation.evaluate import Decision
from booking.server.records import Violation
from booking.server.store_records import Block
from booking.server.web.pages.booking_form import filled
from booking.server.web.pages.site_clock import SiteClock
from cluster import names

Verdict = Literal["good", "bad", "plain"]
_BUTTONS: Final = 4
"""The three earliest slots, and an alternative."""
UNWRITTEN: Final = (
    "is stored, but not written to the cluster yet: the Kubernetes API server does not answer in time."
    " Until it does, it is not guaranteed."
)
"""Text about a booking that the mirror could not write in time."""

FIELD_OF: Final[Mapping[str, str]] = {
    "unknown-model": "model",
    "count-below-one": "count",
    "more-than-exist": "count",
    "more-than-one-node-has": "count",
    "memory-below-one": "memory",
    "not-shared": "memory",
    "more-memory-than-a-gpu-has": "memory",
    "not-a-namespace": "namespace",
    "not-a-user": "user",
    "starts-in-the-past": "start",
    "ends-before-it-starts": "end",
    "too-far-ahead": "end",
    "shortest": "end",
    "longest": "end",
}
"""Rule -> the field that it is about; rules about more than one field are shown above the buttons."""

WHY: Final[Mapping[Why, str]] = {
    "within-limits": "within the limits",
    "later": "later",
    "several-nodes": "on several nodes",
    "shorter": "shorter",
    "fewer-gpus": "fewer GPUs",
    "other-model": "another model",
    "earlier": "earlier",
}
"""The difference of an alternative, in words."""


@dataclass(frozen=True)
class Filler:
    """A button that fills the form."""

    address: str
    """Address of the filled form, for browsers without JavaScript."""
    fragment: str
    """Address of the form alone, for htmx."""
    title: str
    why: str


@dataclass(frozen=True)
class FormAnswer:
    """The verdict above the form's buttons, and messages next to fields."""

    verdict: Verdict
    message: str
    violations: tuple[str, ...] = ()
    slots: tuple[Filler, ...] = ()
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    """Field -> messages next to it."""
    warnings: tuple[str, ...] = ()
    """What may keep pods of an acceptable booking from being created."""
    later: str = ""
    """When it could be booked at the earliest, or that it never can; for a refusal."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """The messages next to fields: screen readers read them out with the answer."""
        return tuple(message for messages in self.errors.values() for message in messages)


class ProposedBooking(Protocol):
    """A slot of the service, or an alternative of the evaluation."""

    @property
    def model(self) -> str:
        """Model in label form."""
        ...

    @property
    def count(self) -> int:
        """Number of GPUs."""
        ...

    @property
    def memory(self) -> int | None:
        """MiB of each of them; None: whole GPUs."""
        ...

    @property
    def topology(self) -> str:
        """``single-node`` or ``any``."""
        ...

    @property
    def start(self) -> datetime:
        """The first instant."""
        ...

    @property
    def end(self) -> datetime:
        """The first instant after the end."""
        ...


def model_title(label: str) -> str:
    """A model as people say it: ``A100 SXM4 80GB``, ``A100 SXM4 80GB, by claim``."""
    bare, by_claim, profile = label.partition(names.CLAIMED_MODEL)
    title = f"{bare}{profile}".removeprefix("NVIDIA-").replace("-", " ")
    return f"{title}, by claim" if by_claim else title


def gpus(count: int, label: str, memory: int | None = None) -> str:
    """A number of GPUs of a model, or shares of so many MiB, as in a heading."""
    what = model_title(label)
    if memory is not None:
        what = f"{wording.mebibytes(memory)} of {what}"
    return f"{count} \N{MULTIPLICATION SIGN} {what}"


def blocked_gpus(block: Block) -> str:
    """The GPUs of a node that are in maintenance: ``all GPUs``, ``all A100 SXM4 80GB``, ..."""
    if block.model is None:
        return "all GPUs" if block.count is None else wording.counted(block.count, "GPU")
    return f"all {model_title(block.model)}" if block.count is None else gpus(block.count, block.model)


def accepted(decision: Decision, clock: SiteClock, warnings: Iterable[str] = ()) -> FormAnswer:
    """The answer that the request can be booked."""
    if decision.start is None or decision.end is None:
        raise ValueError("What is accepted has a start and an end.")
    length = clock.length(decision.start, decision.end)
    where = f" on {wording.listed(place.node for place in decision.plan)}" if decision.plan else ""
    start = "now" if decision.start <= clock.now else clock.moment(decision.start)
    return FormAnswer(
        "good",
        f"Can be booked: {gpus(decision.count, decision.model, decision.memory)}{where}, from {start}"
        f" to {clock.moment(decision.end)} ({length}).",
        warnings=tuple(warnings),
    )


def refused(violations: Sequence[Violation], clock: SiteClock, slots: tuple[Filler, ...] = ()) -> FormAnswer:
    """The answer that the request cannot be booked, and why: in a sentence, or next to the wrong fields."""
    errors: dict[str, list[str]] = {}
    rest: list[str] = []
    for violation in decisive(violations):
        about = FIELD_OF.get(violation.rule)
        if about:
            errors.setdefault(about, []).append(clock.localized(violation.message))
        else:
            rest.append(clock.localized(violation.message))
    message, *more = rest or ["This cannot be booked as it is."]
    return FormAnswer("bad", message, tuple(more), slots, errors)


def decisive(violations: Sequence[Violation]) -> tuple[Violation, ...]:
    """Those that a user must know: of all rules that waiting satisfies only the one that takes longest."""
    starts = {
        each.rule: each.earliest_start
        for each in violations
        if each.earliest_start is not None and each.rule not in FIELD_OF
    }
    last = max(starts, key=starts.__getitem__, default=None)
    return tuple(each for each in violations if each.rule not in starts or each.rule == last)


def nothing_now(later: str, *, can_wait: bool = False) -> str:
    """The message that no other request would be accepted.

    Args:
        later: when this one would be; empty if that is not known.
        can_wait: whether it is said already when this one would be.
    """
    message = "Nothing like it would be accepted now"
    if later:
        return f"{message}. {later}"
    return f"{message}." if can_wait else f"{message}, at no other time either."


def later_of(earliest_start: datetime | None, clock: SiteClock) -> str:
    """The message with the earliest valid start; empty if none is known.

    Rules that count a user's other bookings apply until those are over: a user who waits for that asks again.
    """
    if earliest_start is None:
        return ""
    return f"The earliest valid start for it is {clock.moment(earliest_start)}, if you ask for it then."


def unreadable(errors: Mapping[str, list[str]]) -> FormAnswer:
    """The answer to a form with fields that cannot be parsed."""
    return FormAnswer("plain", "Complete the form to see whether it can be booked.", errors=errors)


def fillers(
    offered: Iterable[tuple[ProposedBooking, str]], clock: SiteClock, *, namespace: str | None, user: str = ""
) -> tuple[Filler, ...]:
    """Buttons for acceptable requests, without duplicates."""
    made: dict[str, Filler] = {}
    for proposal, why in offered:
        texts = filled(
            clock,
            model=proposal.model,
            count=proposal.count,
            memory=proposal.memory,
            topology=proposal.topology,
            start=proposal.start,
            end=proposal.end,
            namespace=namespace,
            user=user,
        )
        start = "Now" if proposal.start <= clock.now else clock.moment(proposal.start)
        query = f"{texts.query()}&check=1"
        title = f"{start} \N{EN DASH} {clock.moment(proposal.end)}"
        made.setdefault(
            texts.query(),
            Filler(f"/?{query}#book", f"/book?{query}", title, why_of(proposal, why, clock)),
        )
    return tuple(made.values())[:_BUTTONS]


def why_of(proposal: ProposedBooking, why: str, clock: SiteClock) -> str:
    """The proposal in words, and its difference."""
    what = gpus(proposal.count, proposal.model, proposal.memory)
    words = f"{what}, {clock.length(proposal.start, proposal.end)}"
    return f"{words} ({why})" if why else words
