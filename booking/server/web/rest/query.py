"""The query of a request: known parameters, once each. An unknown one may be a typing mistake."""

from typing import Final, TypeVar

import msgspec
from flask import request

from booking.server.web.problems import ProblemViolation
from booking.server.web.rest.parsing import Given, Read, read

T = TypeVar("T", bound=msgspec.Struct)


class ParameterWording:
    """Complaints about parameters of a query."""

    def missing(self, name: str, message: str) -> ProblemViolation:
        """A required parameter is missing."""
        return ProblemViolation(
            rule="missing-parameter", message=f"The parameter {name} {message}", field=name
        )

    def unreadable(self, name: str, text: str) -> ProblemViolation:
        """The parameter's value is of another form."""
        plus = ' In a query a "+" is written %2B.' if " " in request.args.get(name, "") else ""
        message = f"The parameter {name} {text}{plus}"
        return ProblemViolation(rule="malformed-parameter", message=message, field=name)

    def beyond(self, name: str, message: str) -> ProblemViolation:
        """The parameter's value is beyond the calendar."""
        return ProblemViolation(
            rule="beyond-the-calendar", message=f"The parameter {name} {message}", field=name
        )

    def duplicated(self, name: str) -> ProblemViolation:
        """The parameter occurs more than once."""
        message = f"The parameter {name} is in the query more than once."
        return ProblemViolation(rule="duplicated-parameter", message=message, field=name)

    def unknown(self, name: str, text: str) -> ProblemViolation:
        """There is no parameter of this name."""
        message = f"The parameter {name} is unknown: {text}"
        return ProblemViolation(rule="unknown-parameter", message=message, field=name.strip('"'))

    def more(self, number: int) -> ProblemViolation:
        """``number`` more parameters are unknown."""
        return ProblemViolation(
            rule="unknown-parameter", message=f"There are {number} more unknown parameters."
        )


PARAMETERS: Final = ParameterWording()


def query_as(kind: type[T]) -> Read[T]:
    """The query of the present request."""
    given = request.args.to_dict(flat=False)
    values = {name: texts[0] for name, texts in given.items()}
    duplicated = frozenset(name for name, texts in given.items() if len(texts) > 1)
    return read(kind, Given(values, duplicated), PARAMETERS)
