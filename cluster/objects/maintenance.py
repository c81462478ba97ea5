"""Maintenance of a node: devices that are unavailable for a time. The booking server writes it on the Node.

The annotation ``names.BLOCKS`` holds JSON:
``[{"start": "...Z", "end": "...Z", "model": "...", "count": 2}]``.
A missing model means all models, a missing count all devices.
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
    """Devices of a node that are not available in ``[start, end)``."""

    start: Instant
    end: Instant
    model: str | None = None
    """In label form; None for all models."""
    count: int | None = None
    """None for all devices of the node."""


_BLOCKS: Final = msgspec.json.Decoder(tuple[MaintenanceBlock, ...])


def encode_blocks(blocks: Iterable[MaintenanceBlock]) -> str:
    """The text of the annotation. Equal blocks give equal text, whatever their order."""
    ordered = sorted(blocks, key=lambda one: (one.start, one.end, one.model or "", one.count or 0))
    return msgspec.json.encode(ordered).decode()


def decode_blocks(text: str) -> tuple[MaintenanceBlock, ...]:
    """The maintenance in an annotation's text.

    Raises:
        BlocksError: the text cannot be read.
    """
    try:
        found = _BLOCKS.decode(text)
    except UNREADABLE as error:
        raise BlocksError(f"The annotation {names.BLOCKS} cannot be read: {error}.") from error
    return tuple(
        block if block.model is None else msgspec.structs.replace(block, model=names.model_label(block.model))
        for block in found
    )
