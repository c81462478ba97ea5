"""Field and label selectors, with the grammar and meaning of the real server.

Labels: ``x=1`` ``x==1`` ``x!=1`` ``x in (1, 2)`` ``x notin (1, 2)`` ``x`` ``!x``, joined by commas; a negated
requirement also holds if the label is missing. Fields: only ``=`` ``==`` ``!=``; a field that an object does
not have counts as the empty text, and only the fields in ``kinds.FIELDS`` can be used.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cluster.fake.errors import refusal
from cluster.fake.kinds import FIELDS, FIELDS_OF_THE_REST
from cluster.kube.errors import Request
from cluster.kube.interface import Selection

_COMMA = re.compile(r",(?![^(]*\))")
_SET = re.compile(r"^(?P<key>\S+)\s+(?P<no>not)?in\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<no>!)?==?\s*(?P<value>[^\s=!]*)$")
_EXISTS = re.compile(r"^(?P<no>!)?\s*(?P<key>[^\s=!()]+)$")


@dataclass(frozen=True, slots=True)
class Term:
    """One requirement of a label or field selector."""

    key: str
    values: frozenset[str] | None
    """None for any value."""
    negated: bool = False

    def holds(self, value: str | None) -> bool:
        """Whether a value meets the requirement; None stands for a missing one."""
        found = value is not None and (self.values is None or value in self.values)
        return found != self.negated


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or a watch selects: a namespace, fields, labels."""

    namespace: str | None
    fields: tuple[tuple[tuple[str, ...], Term], ...]
    labels: tuple[Term, ...]

    def selects(self, obj: Mapping[str, Any]) -> bool:
        """Whether the selector selects the object."""
        metadata = obj["metadata"]
        if self.namespace is not None and metadata.get("namespace") != self.namespace:
            return False
        for path, term in self.fields:
            if not term.holds(_field(obj, path)):
                return False
        if not self.labels:
            return True
        labels = metadata.get("labels") or {}
        return all(term.holds(labels.get(term.key)) for term in self.labels)


def selector_of(request: Request, plural: str, selection: Selection) -> Selector:
    """Read a selection.

    Raises:
        BadRequest: it cannot be read, or uses a field that this kind does not offer.
    """
    try:
        return _parsed(plural, selection)
    except ValueError as error:
        raise refusal(request, 400, "BadRequest", str(error)) from error


@lru_cache(maxsize=1024)
def _parsed(plural: str, selection: Selection) -> Selector:
    fields = [_field_term(text) for text in _split(selection.field_selector)]
    offered = FIELDS.get(plural, FIELDS_OF_THE_REST)
    for term in fields:
        if term.key not in offered:
            raise ValueError(f"field label not supported: {term.key}")
    labels = tuple(_label_term(text) for text in _split(selection.label_selector))
    by_path = tuple((tuple(term.key.split(".")), term) for term in fields)
    return Selector(selection.namespace, by_path, labels)


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in _COMMA.split(text)] if text else []


def _field_term(text: str) -> Term:
    found = _EQUAL.match(text)
    if found is None:
        raise ValueError(f"invalid selector: '{text}'; can't understand '{text}'")
    return Term(found["key"], frozenset({found["value"]}), negated=bool(found["no"]))


def _label_term(text: str) -> Term:
    if found := _SET.match(text):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Term(found["key"], values, negated=bool(found["no"]))
    if found := _EQUAL.match(text):
        return Term(found["key"], frozenset({found["value"]}), negated=bool(found["no"]))
    if found := _EXISTS.match(text):
        return Term(found["key"], None, negated=bool(found["no"]))
    raise ValueError(f"unable to parse requirement: {text}")


def _field(obj: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
