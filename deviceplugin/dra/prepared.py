"""The claims that are prepared on this node, in a file beside the driver's socket.

A file of another boot of the node counts as empty: no container has outlived it. One that cannot be read is
an error, never an empty one: its devices are in use.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from cluster import names
from cluster.objects.meta import UNREADABLE, Versioned, ready

NAMED: Final = 3
"""Claims that a message names."""


class PreparedError(Exception):
    """The file cannot be read or written; a message for people."""


class PreparedDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A device that a claim has."""

    request: str
    device: str
    """Its name in the pool."""
    uuid: str
    share: str | None = None
    """Id of the allocation, where several claims may have the device."""
    memory: int = 0
    """MiB of a share; 0 for the whole device."""
    is_admin: bool = False
    """Whether it is access for administration, which takes the device from nobody."""


class PreparedClaim(msgspec.Struct, frozen=True, omit_defaults=True):
    """A claim whose containers can start."""

    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name``, for people."""
        return f"{self.namespace}/{self.name}"


@ready
class _File(Versioned, frozen=True, kw_only=True):
    boot: str = ""
    claims: tuple[PreparedClaim, ...] = ()


Prepared = Mapping[str, PreparedClaim]
"""Uid of a claim -> what was prepared for it."""


class PreparedFile:
    """The file."""

    def __init__(self, path: Path, boot: str, drivers: Path | None = None) -> None:
        """Nothing is read yet.

        Args:
            path: the file.
            boot: identifies this boot of the node.
            drivers: has a folder for each driver, and some may be ours by an earlier name; None: none.
        """
        self._path = path
        self._boot = boot
        self._drivers = drivers

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No other process reads and writes meanwhile: a second agent may live on the node for a moment.

        Raises:
            PreparedError: the folder cannot be written.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lock = self._path.with_name(f".{self._path.name}.lock").open("ab")
        except OSError as error:
            raise PreparedError(f"{self._path} cannot be written: {error}.") from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def read(self) -> Prepared:
        """The claims that are prepared; none if there is no file, or it is of another boot.

        Raises:
            PreparedError: it cannot be read.
        """
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
        except FileNotFoundError:
            return {}
        except (OSError, *UNREADABLE) as error:
            raise PreparedError(f"{self._path} cannot be read: {error}.") from error
        return {claim.uid: claim for claim in file.claims} if file.boot == self._boot else {}

    def by_other_names(self) -> Prepared:
        """The claims that our driver has prepared while it had another name, and that have not ended.

        Raises:
            PreparedError: a record of theirs cannot be read.
        """
        found: dict[str, PreparedClaim] = {}
        for path in sorted(self._drivers.glob(f"*/{self._path.name}")) if self._drivers else ():
            if path != self._path:
                found |= PreparedFile(path, self._boot).read()
        return found

    def read_all(self) -> Prepared:
        """The claims that are prepared by any name of our driver.

        Raises:
            PreparedError: a record cannot be read.
        """
        return {**self.by_other_names(), **self.read()}

    def write(self, claims: Prepared) -> None:
        """Replace the file, so that a crash leaves the old one or the new one.

        Raises:
            PreparedError: it cannot be written.
        """
        content = _File(boot=self._boot, claims=tuple(claims[uid] for uid in sorted(claims)))
        text = msgspec.json.encode(content)
        unfinished = self._path.with_name(f".{self._path.name}.tmp")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with unfinished.open("wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(self._path)
        except OSError as error:
            raise PreparedError(f"{self._path} cannot be written: {error}.") from error


def under_another_name(file: PreparedFile, driver: str) -> str | None:
    """Why a driver of this name gives nothing, for people: claims of an earlier name have devices.

    The kubelet ends a claim by the driver that has prepared it, and by no other.
    """
    try:
        claims = file.by_other_names()
    except PreparedError as error:
        return str(error)
    if not claims:
        return None
    named = ", ".join(sorted(claim.key for claim in claims.values())[:NAMED])
    return (
        f"Claims have GPUs of this node by another name of the driver than {driver} ({named}): set"
        f" {names.setting('dra_driver')} back until they have ended. Until then claims get no GPU here."
    )
