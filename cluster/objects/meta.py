"""Object metadata, and the base of every partial struct."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

K = TypeVar("K")
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""An instant that says its offset: one without is refused where it is parsed."""

UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)
"""What msgspec raises for a text that it cannot read: the second for thousands of nested brackets."""
_LONGEST_COUNT: Final = 9
"""Digits."""


def ready(kind: type[K]) -> type[K]:
    """A type that is read off the wire, learnt by msgspec now: while one thread imports its module.

    Two threads that read a type for the first time at one moment end the process: the second finds what the
    first has half learnt (a segmentation fault in msgspec 0.22).
    """
    msgspec.json.Decoder(kind)
    return kind


class Partial(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """A part of an API object: immutable, decoded by field, unknown fields skipped."""


@ready
class Versioned(Partial, frozen=True):
    """What an annotation of ours says, where that is a JSON object."""

    version: Literal[1] = 1
    """Of the format: 1 where it is missing. A reader refuses newer ones than it knows: it misreads none."""


class Owner(Partial, frozen=True):
    """One entry of ``metadata.ownerReferences``."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(Partial, frozen=True):
    """``metadata`` of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    """0 when nothing but finalizers keeps the object: the kubelet is done with a pod, or it never ran."""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    def annotation(self, key: str) -> str | None:
        """The value of an annotation, None where it is missing."""
        return (self.annotations or {}).get(key)

    def count(self, key: str) -> int:
        """A number in an annotation of ours; 0 where it is missing or cannot be read."""
        text = (self.annotation(key) or "").strip()
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_COUNT else 0


class ListMeta(Partial, frozen=True):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


@ready
class Status(Partial, frozen=True):
    """``v1.Status``: what the API server answers when it refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None
