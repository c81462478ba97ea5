"""The form *Book*: its texts, the request in them, and the messages next to its fields. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

from booking import durations
from booking.durations import Duration
from booking.server.records import BookingRequest
from booking.server.web.pages.site_clock import BadTimeError, SiteClock
from booking.share_sizes import ShareSizeError, mebibytes_of
from cluster import names
from cluster.objects.bookings import Topology

_WHOLE: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_LONGEST_TEXT: Final = 300
"""Characters of a field that are parsed; no field needs more."""
_HOUR: Final = 3600
_GIB: Final = 1024
NO_COUNT: Final = "Say how many GPUs: a whole number from 1 to 999999."
_UNITS: Final = frozenset({"days", "hours"})


@dataclass(frozen=True)
class Texts:
    """The form's texts, field by field."""

    model: str = ""
    count: str = "1"
    memory: str = ""
    """The memory of each GPU; empty: all of it."""
    topology: str = "single-node"
    start: str = ""
    """The start; empty: now."""
    by: str = "length"
    """Which of the two was filled in: ``length`` or ``end``."""
    amount: str = "1"
    unit: str = "days"
    end: str = ""
    namespace: str = ""
    user: str = ""
    """The user to book for, in an administrator's form; empty: the administrator."""

    def query(self) -> str:
        """The query of an address that fills the form with these texts."""
        texts = {each.name: getattr(self, each.name) for each in fields(self)}
        return urlencode({name: text for name, text in texts.items() if text})


def texts_of(given: Mapping[str, str]) -> Texts:
    """The fields of a form or a query, the model in label form; missing ones are as in a fresh form."""
    known = {each.name for each in fields(Texts)}
    found = {name: text.strip()[:_LONGEST_TEXT] for name, text in given.items() if name in known}
    if "model" in found:
        found["model"] = names.model_label(found["model"])
    return Texts(**found)


@dataclass(frozen=True)
class FormRequest:
    """The parsed form: a request, or what is wrong with the fields."""

    request: BookingRequest | None
    """None if the fields cannot be parsed."""
    length: Duration | None
    user: str | None = None
    """The user for whom an administrator books; None: themselves."""
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    """Field -> messages about what is wrong with it."""


def form_request_of(
    texts: Texts, clock: SiteClock, offered: Callable[[str], int | None] = lambda _: None
) -> FormRequest:
    """Parse the texts; all errors are reported at once.

    Args:
        texts: the form's.
        clock: the site's clock.
        offered: model -> MiB that a GPU of it offers to shares; called for percentages only.
    """
    errors: dict[str, list[str]] = {}
    count = whole(texts.count)
    if not count:
        errors["count"] = [NO_COUNT]
    if not texts.model:
        errors["model"] = ["Choose a model."]
    memory = None
    if texts.memory:
        try:
            memory = mebibytes_of(texts.memory, lambda: offered(texts.model))
        except ShareSizeError as error:
            errors["memory"] = [str(error)]
    start = _instant(texts.start, clock, errors, "start") if texts.start else None
    end, length = _until(texts, start or clock.now.replace(microsecond=0), clock, errors)
    if errors or end is None:
        return FormRequest(None, None, errors=errors)
    topology: Topology = "any" if texts.topology == "any" or count == 1 else "single-node"
    request = BookingRequest(
        model=names.model_label(texts.model),
        count=count,
        memory=memory,
        start=start,
        end=end,
        namespace=texts.namespace or None,
        topology=topology,
    )
    return FormRequest(request, length, texts.user or None, errors)


def filled(
    clock: SiteClock,
    *,
    model: str,
    count: int,
    topology: str,
    start: datetime,
    end: datetime,
    namespace: str | None,
    user: str = "",
    memory: int | None = None,
) -> Texts:
    """The texts of a form for this proposal; a length of whole days or hours stays a length."""
    length = durations.between(start, end, clock.zone)
    hours, rest = divmod(length.seconds, _HOUR)
    duration = {"by": "end", "end": clock.field(end)}
    if not length.seconds:
        duration = {"by": "length", "amount": str(length.days), "unit": "days"}
    elif not length.days and not rest:
        duration = {"by": "length", "amount": str(hours), "unit": "hours"}
    return Texts(
        model=model,
        count=str(count),
        memory="" if memory is None else f"{memory}Mi" if memory % _GIB else f"{memory // _GIB}Gi",
        topology=topology if count > 1 else "single-node",
        start="" if start <= clock.now else clock.field(start),
        namespace=namespace or "",
        user=user,
        **duration,
    )


def _until(
    texts: Texts, start: datetime, clock: SiteClock, errors: dict[str, list[str]]
) -> tuple[datetime | None, Duration | None]:
    if texts.by == "end":
        if not texts.end:
            errors["end"] = ["Say until when."]
            return None, None
        end = _instant(texts.end, clock, errors, "end")
        return end, None if end is None else durations.between(start, end, clock.zone)
    amount = whole(texts.amount) if texts.unit in _UNITS else 0
    if not amount:
        errors["end"] = ["Say for how long: a whole number from 1 to 999999, of days or hours."]
        return None, None
    length = Duration(seconds=amount * _HOUR) if texts.unit == "hours" else Duration(days=amount)
    if length.nominal > durations.LONGEST.nominal:
        errors["end"] = ["That is longer than a hundred years."]
        return None, None
    return durations.after(start, length, clock.zone), length


def whole(text: str) -> int:
    """A whole number; 0 if it is none, or absurdly long."""
    return int(text) if _WHOLE.fullmatch(text) else 0


def _instant(text: str, clock: SiteClock, errors: dict[str, list[str]], name: str) -> datetime | None:
    try:
        return clock.read(text)
    except BadTimeError as error:
        errors[name] = [str(error)]
        return None
