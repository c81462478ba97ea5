"""Object metadata, and the base of every partial struct."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

K = TypeVar("K")
Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""An instant with an offset: decoding refuses one without."""

UNREADABLE: Final = (msgspec.MsgspecError, RecursionError)
"""What msgspec raises for a text that it cannot read: the second for thousands of nested brackets."""
_LONGEST_COUNT: Final = 9
"""Number of digits."""


def ready(kind: type[K]) -> type[K]:
    """Decorator for a type that is decoded: lets msgspec inspect it now, while one thread imports its module.

    If two threads decode a type for the first time at once, msgspec 0.22 ends the process with a segmentation
    fault: the second finds what the first has inspected only in part.
    """
    msgspec.json.Decoder(kind)
    return kind


class Partial(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """A part of an API object: immutable, decoded by field, unknown fields skipped."""


@ready
class Versioned(Partial, frozen=True):
    """The content of an annotation of ours that is a JSON object."""

    version: Literal[1] = 1
    """The version of the format; 1 if missing. A reader refuses versions that it does not know."""


class Owner(Partial, frozen=True):
    """One entry of ``metadata.ownerReferences``."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None

    @property
    def group(self) -> str:
        """The API group of its kind; ``""`` for the core group."""
        return self.api_version.rpartition("/")[0]


class Meta(Partial, frozen=True):
    """``metadata`` of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    """0 if only finalizers keep the object: the kubelet has finished with the pod, or the pod never ran."""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    @property
    def controller(self) -> Owner | None:
        """The owner that is its controller; None if it has none."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)

    def annotation(self, key: str) -> str | None:
        """The value of an annotation; None if it is missing."""
        return (self.annotations or {}).get(key)

    def count(self, key: str) -> int:
        """The number in an annotation of ours; 0 if it is missing or cannot be read."""
        text = (self.annotation(key) or "").strip()
        return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_COUNT else 0


class ListMeta(Partial, frozen=True):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


@ready
class Status(Partial, frozen=True):
    """``v1.Status``: the API server's error answer."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None
