"""Spans, instants and lists, as people read them in messages and as programs read them next to those."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

_UNITS = (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1)))
_LONGEST_TEXT = 80
_GIB: Final = 1024
_THOUSAND: Final = 1000
_INSTANT: Final = re.compile(r"\b(\d{4}-\d{2}-\d{2} \d{2}:\d{2}(?::\d{2})?) UTC\b", re.ASCII)
"""An instant as ``instant`` writes it."""


def span(length: timedelta) -> str:
    """A length in words.

    >>> span(timedelta(days=14, seconds=1))
    '14 days 1 second'
    """
    parts = []
    for unit, size in _UNITS:
        amount, length = divmod(length, size)
        if amount:
            parts.append(counted(amount, unit))
    if length or not parts:
        parts.append(counted(int(length.total_seconds()), "second"))
    return " ".join(parts)


def counted(amount: int, noun: str) -> str:
    """A number and its noun: ``1 GPU``, ``2 GPUs``."""
    return f"{amount} {noun}" if amount == 1 else f"{amount} {noun}s"


def mebibytes(amount: int) -> str:
    """An amount of memory in MiB: ``20 GiB``, ``24.5 GiB``, ``512 MiB``.

    >>> mebibytes(20480), mebibytes(25088), mebibytes(1000)
    ('20 GiB', '24.5 GiB', '1000 MiB')
    """
    if amount < _GIB:
        return f"{amount} MiB"
    return f"{amount / _GIB:.1f}".removesuffix(".0") + " GiB"


def thousandths(amount: int) -> str:
    """Thousandths of GPUs as a number of GPUs.

    >>> thousandths(2000), thousandths(1250)
    ('2', '1.25')
    """
    return f"{amount / _THOUSAND:.3f}".rstrip("0").removesuffix(".")


def thousandths_actual(amount: int) -> int | str:
    """The same for programs: a whole number where it is one."""
    return amount // _THOUSAND if amount % _THOUSAND == 0 else thousandths(amount)


def requested(amount: int) -> str:
    """How many of something are requested: ``1 is asked for``, ``2 are asked for``."""
    return f"{amount} is asked for" if amount == 1 else f"{amount} are asked for"


def instant(moment: datetime) -> str:
    """An instant in a sentence: ``2026-03-02 09:00 UTC``, with seconds where there are any."""
    form = "%Y-%m-%d %H:%M:%S UTC" if moment.second else "%Y-%m-%d %H:%M UTC"
    return moment.astimezone(UTC).strftime(form)


def with_local_times(message: str, render: Callable[[datetime], str]) -> str:
    """A message with its instants (``instant``) rewritten in the reader's time zone."""
    return _INSTANT.sub(lambda found: render(datetime.fromisoformat(found[1]).replace(tzinfo=UTC)), message)


def iso(value: datetime | timedelta) -> str:
    """An instant by RFC 3339, a length by ISO 8601: for programs."""
    return str(msgspec.to_builtins(value))


def clipped(text: str) -> str:
    """A user's text, shortened if it is long."""
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


def quoted(text: str) -> str:
    """A user's text in our sentence: no line breaks or control characters, shortened if it is long."""
    return repr(clipped(text))


def listed(items: Iterable[str]) -> str:
    """Names, separated by commas."""
    return ", ".join(items)
