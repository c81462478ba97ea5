"""The CDI specifications of slots: each tells the container that holds the slot what it may use.

A container with shares refers to its GPUs, as any other, and to one such device for each slot. The file of a
slot is deleted when the kubelet gives the slot to a container, and written for its pod before the container
starts. While it is missing, the container runtime does not start the container. Nothing in the pod overrides
what stands in it.

Source: Container Device Interface specification 0.6.0.
"""

import json
import os
from collections.abc import Collection, Iterable
from pathlib import Path

import structlog

from cluster import names
from cluster.objects.slots import as_a_name
from deviceplugin.injection.cdi import CDI_VERSION
from deviceplugin.injection.share_edits import ShareEdits, container_edits

log = structlog.get_logger(__name__)


class ShareFiles:
    """Files in the container runtime's folder; safe from any thread, as each slot has a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, slots: Iterable[str], edits: ShareEdits) -> None:
        """Write the files of a container's slots, atomically.

        Raises:
            OSError: one cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        for slot in slots:
            path = self._path(slot)
            # The runtime reads files that end in .json: the name of the unfinished one must not.
            unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
            try:
                unfinished.write_bytes(specification(slot, edits))
                unfinished.replace(path)
            except OSError:
                unfinished.unlink(missing_ok=True)
                raise

    def forget(self, slots: Iterable[str]) -> None:
        """Delete the files of slots that have got another holder. Never raises: they are written anew."""
        for slot in slots:
            self._delete(self._path(slot))

    def tidy(self, held: Collection[str]) -> None:
        """Delete the files of slots that no pod holds. Never raises."""
        kept = {self._path(slot) for slot in held}
        try:
            found = list(self._folder.glob(f"{names.SHARE_FILE_PREFIX}*.json"))
        except OSError:
            return
        for path in found:
            if path not in kept:
                self._delete(path)

    def _path(self, slot: str) -> Path:
        return self._folder / f"{names.SHARE_FILE_PREFIX}{as_a_name(slot)}.json"

    def _delete(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning(
                "the CDI specification of a share cannot be deleted", file=str(path), error=str(error)
            )


def specification(slot: str, edits: ShareEdits) -> bytes:
    """The text of a slot's specification. Equal input gives equal text."""
    spec = {
        "cdiVersion": CDI_VERSION,
        "kind": names.SHARE_KIND,
        "devices": [{"name": as_a_name(slot), "containerEdits": container_edits(edits)}],
    }
    return json.dumps(spec, indent=2).encode() + b"\n"
