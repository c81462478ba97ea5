"""The JSON patch (RFC 6902) that turns one JSON object into another."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

Verb = Literal["add", "remove", "replace"]


class Operation(msgspec.Struct, frozen=True):
    """One step of a patch."""

    op: Verb
    path: str
    """A JSON pointer (RFC 6901)."""
    value: Any = msgspec.UNSET


def patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The operations from one to the other, ordered by path; none if they are equal.

    Objects are compared key by key; everything else (lists too) is replaced as a whole.
    """
    return tuple(_steps("", before, after))


def _steps(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Operation]:
    for key in sorted(before.keys() | after.keys()):
        where = f"{path}/{_escaped(key)}"
        if key not in after:
            yield Operation("remove", where)
        elif key not in before:
            yield Operation("add", where, after[key])
        elif isinstance(before[key], Mapping) and isinstance(after[key], Mapping):
            if before[key] is not after[key]:
                yield from _steps(where, before[key], after[key])
        elif before[key] != after[key]:
            yield Operation("replace", where, after[key])


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
