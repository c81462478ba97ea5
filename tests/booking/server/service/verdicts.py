"""What a caller learns about a request, in a form in which a dry run and the real request can be compared."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from booking.server.errors import NotAllowedError, RefusedError, StaleError, UnknownError
from booking.server.evaluation.evaluate import Decision
from booking.server.records import Record, Violation

Granted = tuple[datetime | None, datetime | None, int, str, str | None]
"""Start, end, count, topology and namespace of a booking."""
Refused = list[Violation] | str


def verdict(ask: Callable[[], Decision | Record]) -> Granted | Refused:
    """The booking as it would be or is; its violations; or the error and its message."""
    try:
        made = ask()
    except RefusedError as refused:
        return list(refused.violations)
    except (NotAllowedError, StaleError, UnknownError) as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(made, Decision) and made.violations:
        return list(made.violations)
    return made.start, made.end, made.count, made.topology, made.namespace


def record_of(ask: Callable[[], Record]) -> Record | Refused:
    """The whole record, apart from the number of the change that wrote it; or as ``verdict``."""
    found: list[Record] = []

    def ask_and_keep() -> Record:
        found.append(ask())
        return found[0]

    outcome = verdict(ask_and_keep)
    return outcome if isinstance(outcome, list | str) else msgspec.structs.replace(found[0], change=0)
