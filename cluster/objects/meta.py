"""Object metadata, and the base of every partial struct."""

from datetime import datetime
from typing import Any

import msgspec


class Partial(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False, omit_defaults=True):
    """A part of an API object: immutable, decoded by field, unknown fields skipped."""


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
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None
    finalizers: tuple[str, ...] | None = None

    def annotation(self, key: str) -> str | None:
        """The value of an annotation, None where it is missing."""
        return (self.annotations or {}).get(key)


class ListMeta(Partial, frozen=True):
    """``metadata`` of a list."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(name="continue", default=None)


class Status(Partial, frozen=True):
    """``v1.Status``: what the API server answers when it refuses."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: dict[str, Any] | None = None
