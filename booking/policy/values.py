"""One limit as it is written, in the policy file or in an exemption, and its value. Pure."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from booking import durations
from booking.durations import Duration, DurationError
from booking.policy.limits import Limits
from cluster import names

Value = Duration | int | bool | str | None
Values = Mapping[str, Value]
"""Limit -> its value, of the limits that a scope sets; those that it does not set come from a wider one."""
_TYPES: Final[Mapping[str, Any]] = {
    field.name: field.type for field in msgspec.structs.fields(Limits) if field.name != "zone"
}
LIMIT_NAMES: Final = tuple(_TYPES)
"""Every limit that a scope may set."""
_OTHER_WORDS: Final = {
    "min_duration": "shortest",
    "max_duration": "longest",
    "start_not_before": "tolerance",
    "max_live": "max_active and max_planned",
    "extension": "may_extend",
}
_BESIDE: Final = ("pools", "members")
"""Keys that are allowed next to limits."""
_SETTINGS: Final = {
    "warn_before": "warn_before",
    "end_action": "end_action_without_controller",
}
"""Keys that are no limits, but settings of the controller -> the setting."""
_OF_PODS: Final = {"end_grace": "terminationGracePeriodSeconds"}
"""Keys that are no limits, but set by each pod -> the pod's field."""


class ValueMistakeError(ValueError):
    """An unknown limit, or a value that it cannot have; the text is a message."""


def require_known_limit(limit: str) -> None:
    """Check that there is such a limit.

    Raises:
        ValueMistakeError: there is none; the message suggests what may have been meant.
    """
    if limit not in _TYPES:
        raise ValueMistakeError(_unknown(limit))


def read_value(limit: str, written: Any) -> Value:
    """The value of a limit.

    Args:
        limit: a limit's name.
        written: text, number, truth value or None, as in JSON and YAML.

    Raises:
        ValueMistakeError: the limit does not exist, or cannot have this value.
    """
    require_known_limit(limit)
    kinds = get_args(_TYPES[limit]) if get_origin(_TYPES[limit]) is not Literal else ()
    if type(None) in kinds and (written is None or written == "none"):
        return None
    kind = next((each for each in kinds if each is not type(None)), _TYPES[limit])
    return _as(kind, limit, written)


def written_value(value: Value) -> str | int | bool | None:
    """A value for programs, which ``read_value`` parses back."""
    return durations.iso(value) if isinstance(value, Duration) else value


def _as(kind: Any, limit: str, written: Any) -> Value:
    if kind is Duration:
        return _span(limit, written)
    if kind is int:
        return _number(limit, written)
    if kind is bool:
        if isinstance(written, bool):
            return written
        raise ValueMistakeError(f"{limit} is true or false, not {_shown(written)}.")
    choices = get_args(kind)
    if written in choices:
        return str(written)
    raise ValueMistakeError(f"{limit} is one of {', '.join(map(str, choices))}, not {_shown(written)}.")


def _span(limit: str, written: Any) -> Duration:
    if not isinstance(written, str):
        raise ValueMistakeError(
            f"{limit} is a length of time, such as P14D, PT36H, 14d or 36h, not {_shown(written)}."
        )
    try:
        return durations.read(written)
    except DurationError as error:
        raise ValueMistakeError(f"{limit}: {error}") from error


def _number(limit: str, written: Any) -> int:
    if isinstance(written, bool) or not isinstance(written, int):
        raise ValueMistakeError(f"{limit} is a whole number, not {_shown(written)}.")
    return written


def _unknown(limit: str) -> str:
    if limit in _SETTINGS:
        variable = names.setting(_SETTINGS[limit])
        return f"{limit} is decided by the controller, not by the policy: see its setting {variable}."
    if limit in _OF_PODS:
        return f"{limit} is each pod's own ({_OF_PODS[limit]}), and not of the policy."
    close = get_close_matches(limit, (*LIMIT_NAMES, *_BESIDE), n=1)
    suggestion = _OTHER_WORDS.get(limit) or (close[0] if close else None)
    hint = f" (is {suggestion} meant?)" if suggestion else f": there are {', '.join(LIMIT_NAMES)}"
    return f"There is no limit {limit[:80]!r}{hint}."


def _shown(written: Any) -> str:
    text = "nothing" if written is None else repr(written)
    return text if len(text) <= durations.LONGEST_TEXT else f"{text[: durations.LONGEST_TEXT]}…"
