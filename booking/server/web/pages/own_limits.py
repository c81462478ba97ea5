"""A user's limits in a few words, before they try. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from booking import durations, wording


def limits_text(values: Mapping[str, Any]) -> str:
    """The limits of a user on a model.

    Args:
        values: by name of the limit, as the service has them (``limit_values``).
    """
    return f"Your limits: {'; '.join(_parts(values))}."


def _parts(values: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_words(values['shortest'])} to {_words(values['longest'])}"
    if values["granularity"]:
        yield f"in steps of {_words(values['granularity'])}"
    yield from _amounts(values)
    if values["horizon"]:
        yield f"starting within {_words(values['horizon'])}"
    yield _at_a_time(values["max_planned"], values["max_active"])
    if durations.read(values["cooldown"]):
        yield f"{_words(values['cooldown'])} between two bookings"


def _amounts(values: Mapping[str, Any]) -> Iterator[str]:
    one, all_ = values["max_gpus_per_booking"], values["max_concurrent_gpus"]
    lifted = f" (more if it starts within {_words(values['spontaneous'])})" if values["spontaneous"] else ""
    if one is not None:
        yield f"at most {wording.counted(one, 'GPU')} in a booking{lifted}"
    if all_ is not None:
        yield f"at most {wording.counted(all_, 'GPU')} at a time{lifted}"


def _at_a_time(planned: int, active: int) -> str:
    """How many bookings one may have."""
    running = "one runs" if active == 1 else f"{active} run"
    return f"{planned} planned, and no new one while {running}"


def _words(length: str) -> str:
    return durations.words(durations.read(length))
