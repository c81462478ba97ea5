"""Parses a request into one struct: every field by itself, all errors reported at once. Pure.

The struct's types define the fields, for the OpenAPI document and here (``booking.server.web.fields``).
Nothing is read twice, and duplicated or unknown names are reported instead of guessed at.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import inspect

from booking.server.web.fields import HINT, READ, BadFieldError, BeyondError, Reader, choice_of, shown
from booking.server.web.problems import MALFORMED, REFUSED, Kind, ProblemError, ProblemViolation

_NAMED: Final = 20
"""Maximum number of unknown fields that complaints name."""

T = TypeVar("T", bound=msgspec.Struct)


@dataclass(frozen=True)
class Given:
    """Names and values as received."""

    values: Mapping[str, Any]
    duplicated: frozenset[str] = frozenset()
    """Names that occur more than once: their meaning is ambiguous."""


@dataclass(frozen=True)
class Read(Generic[T]):
    """What could be parsed of a struct, and what could not."""

    kind: type[T]
    values: Mapping[str, Any]
    """Attribute -> value, of those that are there and can be read."""
    complaints: tuple[ProblemViolation, ...]
    """Everything that cannot be read; empty when the struct is what was meant."""
    unread: frozenset[str]
    """Fields that are present, or should be, and cannot be parsed."""
    are_beyond: bool = False
    """Whether everything that is wrong is beyond the calendar: the meaning is clear."""

    def made(self) -> T:
        """The struct.

        Raises:
            ProblemError: 400 with everything that is wrong.
        """
        self.demand()
        return self.kind(**self.values)

    def demand(self) -> None:
        """Refuse a request that could not be parsed completely.

        Raises:
            ProblemError: 400 with everything that is wrong.
        """
        if self.complaints:
            sentences = " ".join(complaint.message for complaint in self.complaints)
            raise ProblemError(self.problem, sentences, violations=self.complaints)

    @property
    def problem(self) -> Kind:
        """The kind of problem if something is wrong."""
        return REFUSED if self.are_beyond else MALFORMED


class Wording(Protocol):
    """The wording of complaints about one name."""

    def missing(self, name: str, message: str) -> ProblemViolation:
        """A required field is missing."""
        ...

    def unreadable(self, name: str, text: str) -> ProblemViolation:
        """The field's value is of another type or form."""
        ...

    def beyond(self, name: str, message: str) -> ProblemViolation:
        """The field's value is beyond the calendar."""
        ...

    def duplicated(self, name: str) -> ProblemViolation:
        """The field occurs more than once."""
        ...

    def unknown(self, name: str, text: str) -> ProblemViolation:
        """There is no field of this name."""
        ...

    def more(self, number: int) -> ProblemViolation:
        """``number`` more fields are unknown."""
        ...


def read(kind: type[T], given: Given, wording: Wording) -> Read[T]:
    """Parse the fields of a struct.

    Args:
        kind: its type.
        given: names and values.
        wording: of complaints: about fields of a body, or parameters of a query.
    """
    reading = _Reading(given, wording)
    fields = fields_of(kind)
    reading.report_unknown(tuple(fields))
    for each in fields.values():
        reading.read(each)
    return Read(
        kind,
        reading.values,
        tuple(reading.complaints),
        frozenset(reading.unread),
        are_beyond=reading.is_readable,
    )


@dataclass(frozen=True)
class Field:
    """A field of a struct, and how it is parsed."""

    attribute: str
    name: str
    """Its name in JSON or in the query."""
    read: Reader
    is_required: bool
    takes_null: bool
    hint: str
    """What to do if it is missing."""


@cache
def fields_of(kind: type[msgspec.Struct]) -> dict[str, Field]:
    """Name -> field of a struct."""
    info = inspect.type_info(kind)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{kind.__name__} is not a struct.")
    return {each.encode_name: _field(each) for each in info.fields}


def _field(described: inspect.Field) -> Field:
    parts = described.type.types if isinstance(described.type, inspect.UnionType) else (described.type,)
    takes_null = any(isinstance(part, inspect.NoneType) for part in parts)
    (main,) = (part for part in parts if not isinstance(part, inspect.NoneType))
    extra = main.extra or {} if isinstance(main, inspect.Metadata) else {}
    hint = extra.get(HINT, "say it.")
    return Field(described.name, described.encode_name, _reader(main), described.required, takes_null, hint)


def _reader(kind: inspect.Type) -> Reader:
    if isinstance(kind, inspect.Metadata):
        own: Reader | None = (kind.extra or {}).get(READ)
        return own or _reader(kind.type)
    if isinstance(kind, inspect.LiteralType):
        return _chooser(tuple(map(str, kind.values)))
    raise TypeError(f"Nothing reads {kind}.")


def _chooser(choices: tuple[str, ...]) -> Callable[[Any], str]:
    return lambda value: choice_of(value, choices)


@dataclass
class _Reading:
    """The fields of one request, and the complaints about them."""

    given: Given
    wording: Wording
    values: dict[str, Any] = field(default_factory=dict)
    complaints: list[ProblemViolation] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    is_readable: bool = True
    """Whether all complaints are about values that could be parsed."""

    def read(self, wanted: Field) -> None:
        """Read one field into ``values``, or add a complaint."""
        name = wanted.name
        if name in self.given.duplicated:
            self._add_problem(name, self.wording.duplicated(name))
        elif self._is_missing(wanted):
            if wanted.is_required:
                self._add_problem(name, self.wording.missing(name, f"is missing: {wanted.hint}"))
        elif self.given.values[name] is None and wanted.takes_null:
            self.values[wanted.attribute] = None
        else:
            try:
                self.values[wanted.attribute] = wanted.read(self.given.values[name])
            except BeyondError as error:
                self.unread.add(name)
                self.complaints.append(self.wording.beyond(name, str(error)))
            except BadFieldError as error:
                self._add_problem(name, self.wording.unreadable(name, str(error)))

    def _is_missing(self, wanted: Field) -> bool:
        """Whether the field is missing; a required field that is null counts as missing, too."""
        value = self.given.values.get(wanted.name, msgspec.UNSET)
        return value is msgspec.UNSET or (value is None and wanted.is_required)

    def report_unknown(self, known: tuple[str, ...]) -> None:
        """Complain about unknown names: otherwise a typing mistake would have another effect."""
        nested = sorted(self.given.duplicated - set(self.given.values))
        unknown = [name for name in self.given.values if name not in known]
        self.is_readable = not (nested or unknown)
        self.complaints += [self.wording.duplicated(shown(name)) for name in nested[:_NAMED]]
        for name in unknown[:_NAMED]:
            close = get_close_matches(name, known, n=1)
            there = f"there are {', '.join(known)}." if known else "there is none here."
            hint = f"is {close[0]} meant?" if close else there
            self.complaints.append(self.wording.unknown(shown(name), hint))
        if len(unknown) > _NAMED:
            self.complaints.append(self.wording.more(len(unknown) - _NAMED))

    def _add_problem(self, name: str, complaint: ProblemViolation) -> None:
        self.unread.add(name)
        self.complaints.append(complaint)
        self.is_readable = False
