"""A request's body as one JSON object; ambiguities and invalid JSON are refused. Pure."""

import json
from collections.abc import Iterable
from typing import Any, Final

from booking.server.web.problems import MALFORMED, ProblemError, ProblemViolation
from booking.server.web.rest.parsing import Given

LONGEST_BODY: Final = 64 * 1024
"""Bytes of a body at most."""
_LONGEST_NUMBER: Final = 20
"""Digits of a whole number that is still parsed as one."""


class FieldWording:
    """Complaints about fields of a body."""

    def missing(self, name: str, message: str) -> ProblemViolation:
        """A required field is missing."""
        return ProblemViolation(rule="missing-field", message=f"The field {name} {message}", field=name)

    def unreadable(self, name: str, text: str) -> ProblemViolation:
        """The field's value is of another type or form."""
        return ProblemViolation(rule="malformed-field", message=f"The field {name} {text}", field=name)

    def beyond(self, name: str, message: str) -> ProblemViolation:
        """The field's value is beyond the calendar."""
        return ProblemViolation(rule="beyond-the-calendar", message=f"The field {name} {message}", field=name)

    def duplicated(self, name: str) -> ProblemViolation:
        """The field occurs more than once."""
        message = f"The field {name} is in the body more than once."
        return ProblemViolation(rule="duplicated-field", message=message, field=name)

    def unknown(self, name: str, text: str) -> ProblemViolation:
        """There is no field of this name."""
        message = f"The field {name} is unknown: {text}"
        return ProblemViolation(rule="unknown-field", message=message, field=name.strip('"'))

    def more(self, number: int) -> ProblemViolation:
        """``number`` more fields are unknown."""
        return ProblemViolation(rule="unknown-field", message=f"There are {number} more unknown fields.")


FIELDS: Final = FieldWording()


def parsed(text: bytes) -> Given:
    """Parse a JSON object; keys count as duplicated at any depth.

    Raises:
        ProblemError: 400, it is not one.
    """
    duplicated: set[str] = set()

    def collect(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for key, value in pairs:
            if key in fields:
                duplicated.add(key)
            fields[key] = value
        return fields

    try:
        value = json.loads(
            text.decode("utf-8"), object_pairs_hook=collect, parse_constant=_refuse, parse_int=_whole_number
        )
    except RecursionError as error:
        raise ProblemError(MALFORMED, "The body is nested too deeply.") from error
    except UnicodeDecodeError as error:
        raise ProblemError(MALFORMED, f"The body is not UTF-8 (at byte {error.start}).") from error
    except ValueError as error:
        raise ProblemError(MALFORMED, f"The body is not JSON: {error}.") from error
    if not isinstance(value, dict):
        raise ProblemError(MALFORMED, 'The body must be a JSON object: {"model": ...}.')
    return Given(value, frozenset(duplicated))


def _refuse(constant: str) -> Any:
    raise ValueError(f"it has no {constant}")


def _whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _LONGEST_NUMBER else float(digits)
