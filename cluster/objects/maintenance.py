"""Maintenance of a node: devices that cannot be had for a time, as the booking server writes it on the Node.

The annotation ``names.BLOCKS`` holds JSON:
``[{"start": "...Z", "end": "...Z", "model": "...", "count": 2}]``.
What is not said means all: all models, all devices.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Instant, Partial, ready


class BlocksError(ValueError):
    """An annotation that cannot be read: it is unknown which GPUs of the node can be used."""


@ready
class MaintenanceBlock(Partial, frozen=True):
    """Devices of a node that cannot be had in ``[start, end)``."""

    start: Instant
    end: Instant
    model: str | None = None
    """In label form; None means all."""
    count: int | None = None
    """None means all of the node."""


_BLOCKS: Final = msgspec.json.Decoder(tuple[MaintenanceBlock, ...])


def encode_blocks(blocks: Iterable[MaintenanceBlock]) -> str:
    """The text of the annotation. Equal blocks give equal text, in whatever order they come."""
    ordered = sorted(blocks, key=lambda one: (one.start, one.end, one.model or "", one.count or 0))
    return msgspec.json.encode(ordered).decode()


def decode_blocks(text: str) -> tuple[MaintenanceBlock, ...]:
    """The maintenance in an annotation's text.

    Raises:
        BlocksError: it cannot be read.
    """
    try:
        return _BLOCKS.decode(text)
    except UNREADABLE as error:
        raise BlocksError(f"The annotation {names.BLOCKS} cannot be read: {error}.") from error
