"""Single fields of a request, from JSON or from the query: parsed, or refused with the reason. Pure.

A type here is both the field's schema in the OpenAPI document and, in ``extra``, the function that parses it.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, get_args

import msgspec

from booking import durations
from booking.server.service.context import GpuOrder
from cluster.objects.bookings import Topology

READ: Final = "read"
"""Key in ``extra`` of a type: the function that parses its values."""
HINT: Final = "hint"
"""Key in ``extra`` of a type: what to do if the field is missing."""
Reader = Callable[[Any], Any]

_RFC_3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_RFC_3339_WITHOUT_OFFSET: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?)?", re.ASCII
)
LARGEST_COUNT: Final = 2**31 - 1
LONGEST_TEXT: Final = 200
LONGEST_REASON: Final = 500
LARGEST_PAGE: Final = 500
MOST_NAMES: Final = 50
_SHOWN: Final = 60

_UNSEEN: Final = (
    r"\u0000-\u001f\u007f-\u00a0\u00ad\u1680\u180e\u2000-\u200f\u2028-\u202f"
    r"\u205f-\u206f\u3000\ufeff\ufff9-\ufffb"
)
"""Control characters, spaces that look like others, and marks that change the direction of writing."""
VISIBLE: Final = rf"^[^{_UNSEEN} ]([^{_UNSEEN}]*[^{_UNSEEN} ])?$"
"""A text without invisible characters, for OpenAPI and for us."""
_VISIBLE: Final = re.compile(VISIBLE)
_DATE: Final = r"([0-9]{1,5}[Ww]([0-9]{1,6}[Dd])?|[0-9]{1,6}[Dd])"
_CLOCK: Final = (
    r"([0-9]{1,7}[Hh]([0-9]{1,9}[Mm])?([0-9]{1,11}[Ss])?|[0-9]{1,9}[Mm]([0-9]{1,11}[Ss])?|[0-9]{1,11}[Ss])"
)
DURATION: Final = rf"^([Pp]({_DATE}([Tt]{_CLOCK})?|[Tt]{_CLOCK})|{_DATE}{_CLOCK}?|{_CLOCK})$"
"""The lengths that ``booking.durations`` parses, as a pattern."""


class BadFieldError(ValueError):
    """A field that cannot be parsed; the text says what it must be and what it is."""


class BeyondError(BadFieldError):
    """A field whose value is beyond the calendar."""


def text_of(value: Any) -> str:
    """A text.

    Raises:
        BadFieldError: it is none, or has invisible characters.
    """
    return _text_of(value, LONGEST_TEXT)


def reason_of(value: Any) -> str:
    """A reason, in a sentence.

    Raises:
        BadFieldError: it is none, or has invisible characters.
    """
    return _text_of(value, LONGEST_REASON)


def _text_of(value: Any, longest: int) -> str:
    if not isinstance(value, str):
        raise BadFieldError(f"must be a text, not {shown(value)}.")
    if len(value) > longest or not _VISIBLE.fullmatch(value) or not _is_encodable(value):
        raise BadFieldError(f"must be a text of 1 to {longest} visible characters, not {shown(value)}.")
    return value


def _is_encodable(text: str) -> bool:
    """Whether the text is valid Unicode: half of a surrogate pair is not."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def count_of(value: Any) -> int:
    """A whole number.

    Raises:
        BadFieldError: it is none, or out of range.
    """
    if isinstance(value, float) and value.is_integer():
        # JSON has only one kind of number: 2.0 is 2.
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadFieldError(f"must be a whole number, not {shown(value)}.")
    if abs(value) > LARGEST_COUNT:
        raise BadFieldError(f"must be a whole number of at most {LARGEST_COUNT}, not {shown(value)}.")
    return value


def page_of(value: Any) -> int:
    """The requested number of entries of a page, from a query.

    Raises:
        BadFieldError: it is not such a number.
    """
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,4}", value) and 1 <= int(value) <= LARGEST_PAGE:
        return int(value)
    raise BadFieldError(f"must be a whole number from 1 to {LARGEST_PAGE}, not {shown(value)}.")


def object_of(value: Any) -> dict[str, Any]:
    """A JSON object, whatever it contains.

    Raises:
        BadFieldError: it is not an object, or has absurdly many names.
    """
    if not isinstance(value, dict) or len(value) > MOST_NAMES:
        raise BadFieldError(f"must be an object of at most {MOST_NAMES} names, not {shown(value)}.")
    return value


def choice_of(value: Any, choices: tuple[str, ...]) -> str:
    """One of several words.

    Raises:
        BadFieldError: it is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise BadFieldError(f"must be one of {', '.join(map(json.dumps, choices))}, not {shown(value)}.")
    return value


def instant_of(value: Any) -> datetime:
    """An instant in UTC, whole seconds, from RFC 3339 with an offset.

    Raises:
        BeyondError: it is beyond the calendar.
        BadFieldError: it is not an instant, or has no offset.
    """
    wanted = "must be an instant with its offset from UTC, such as 2026-03-02T09:00:00+01:00"
    if isinstance(value, str) and _RFC_3339_WITHOUT_OFFSET.fullmatch(value):
        raise BadFieldError(f"{wanted}; {shown(value)} does not say all of it.")
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise BadFieldError(f"{wanted}, not {shown(value)}.")
    try:
        return datetime.fromisoformat(value.upper()).astimezone(UTC).replace(microsecond=0)
    except OverflowError as error:
        raise BeyondError(f"{wanted}; {shown(value)} is in no calendar.") from error
    except ValueError as error:
        raise BadFieldError(f"{wanted}; {shown(value)} is in no calendar.") from error


def length_of(value: Any) -> str:
    """A length that ``booking.durations`` parses: days are calendar days, hours are elapsed.

    Raises:
        BeyondError: the calendar is not so long.
        BadFieldError: it is none; months and years have no certain length.
    """
    if not isinstance(value, str):
        raise BadFieldError(f'must be a length such as "P2D" (days) or "PT36H" (hours), not {shown(value)}.')
    try:
        durations.read(value)
    except durations.DurationError as error:
        kind = BeyondError if re.fullmatch(DURATION, value) else BadFieldError
        raise kind(f"must be a length: {error}") from error
    return value


def boolean_of(value: str) -> bool:
    """``true`` or ``false``, as a query says it.

    Raises:
        BadFieldError: it is neither.
    """
    return choice_of(value, ("true", "false")) == "true"


def shown(value: Any) -> str:
    """A user's value in our message: short, on one line, without invisible characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value)
    if isinstance(value, str) and value.isprintable():
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


Text = Annotated[
    str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT, pattern=VISIBLE, extra={READ: text_of})
]
Reason = Annotated[
    str,
    msgspec.Meta(
        description="Why, in the words of who asks.",
        examples=["The power supply is replaced."],
        min_length=1,
        max_length=LONGEST_REASON,
        pattern=VISIBLE,
        extra={READ: reason_of, HINT: "say why."},
    ),
]
Model = Annotated[
    str,
    msgspec.Meta(
        description="A GPU model, as the driver says it or in the form of labels.",
        examples=["NVIDIA-A100-SXM4-80GB"],
        min_length=1,
        max_length=LONGEST_TEXT,
        pattern=VISIBLE,
        extra={READ: text_of, HINT: 'name a GPU model: "model": "NVIDIA-A100-SXM4-80GB".'},
    ),
]
Count = Annotated[int, msgspec.Meta(description="GPUs.", ge=1, le=LARGEST_COUNT, extra={READ: count_of})]
Memory = Annotated[
    int,
    msgspec.Meta(
        description="MiB of each GPU: the booking is of shares. Without it the GPUs are whole.",
        examples=[20480],
        ge=1,
        le=LARGEST_COUNT,
        extra={READ: count_of},
    ),
]
Instant = Annotated[datetime, msgspec.Meta(description="RFC 3339.", tz=True, extra={READ: instant_of})]
Length = Annotated[
    str,
    msgspec.Meta(
        description="ISO 8601 or short: P2D, 2d (calendar days), PT36H, 36h (elapsed).",
        examples=["P2D"],
        pattern=DURATION,
        max_length=40,
        extra={READ: length_of, HINT: 'say how long: "P2D".'},
    ),
]
Shape = Annotated[
    Topology,
    msgspec.Meta(
        description="All GPUs on one node, or on any; without it single-node for more than one.",
        extra={READ: lambda value: choice_of(value, get_args(Topology))},
    ),
]
Ordered = Annotated[
    GpuOrder,
    msgspec.Meta(
        description="Take it out of use for new pods, give it back, or report that it is repaired.",
        extra={READ: lambda value: choice_of(value, get_args(GpuOrder))},
    ),
]
Boolean = Annotated[bool, msgspec.Meta(extra={READ: boolean_of})]
PageLength = Annotated[
    int,
    msgspec.Meta(description="How many at once.", ge=1, le=LARGEST_PAGE, extra={READ: page_of}),
]
