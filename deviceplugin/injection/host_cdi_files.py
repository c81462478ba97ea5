"""Reads the CDI specifications of the host from the container runtime's folders, the last one first."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import structlog

from deviceplugin.injection.host_cdi import KIND, NOTHING, Fit, Specification, fit

log = structlog.get_logger(__name__)

LARGEST_FILE: Final = 4 * 1024 * 1024
"""Bytes; the file of a machine with 16 GPUs has 40,000."""


class HostFolders:
    """Finds a specification of the host that fits our GPUs; used by one thread."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Args: folders: as in the runtime, where a later one wins; if empty, nothing is read."""
        self._folders = tuple(folders)
        self._reported: str | None = None

    def read(self, own_nodes: Mapping[str, frozenset[str]], driver: str | None) -> Mapping[str, str]:
        """UUID -> qualified name, for all of these devices or for none of them.

        Args:
            own_nodes: uuid -> paths of the device nodes that belong only to it.
            driver: the driver's version; None if it cannot be seen.
        """
        found = next((one for one in self._fits(own_nodes, driver) if one != NOTHING), NOTHING)
        if found.problem != self._reported and found.problem is not None:
            message = f"{found.problem}: ours is used."
            log.warning("the host's CDI specification cannot be used", message=message)
        self._reported = found.problem
        return found.qualified

    def _fits(self, own_nodes: Mapping[str, frozenset[str]], driver: str | None) -> Iterator[Fit]:
        for folder in reversed(self._folders):
            try:
                found = _read(folder)
                yield fit(found, own_nodes, driver)
            except (OSError, ValueError) as error:
                yield Fit(problem=f"{folder} cannot be read: {error}")


def _read(folder: Path) -> list[Specification]:
    """The folder's specifications that mention our kind; all other files, and too large ones, are ignored."""
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.suffix in {".json", ".yaml", ".yml"})
    return [found for path in files if (found := _specification(path)) is not None]


def _specification(path: Path) -> Specification | None:
    if path.stat().st_size > LARGEST_FILE:
        return None
    content = path.read_bytes()
    if KIND.encode() not in content:
        return None
    try:
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
        return decode(content, type=Specification)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name}: {error}") from error
