"""The kubelets' checkpoints, read whenever they have changed."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.kubelet.checkpoint import NAME, decode
from tests.laws import claim_states
from tests.laws.claim_states import Believed


class _Files:
    """One file for each node. A kubelet puts a new one in its place each time."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files
        self._read: dict[str, tuple[int, int]] = {}

    def changed(self) -> Iterator[tuple[str, bytes]]:
        """The nodes whose file has changed, with its content."""
        for node, file in self._files.items():
            try:
                status = file.stat()
                mark = (status.st_ino, status.st_mtime_ns)
                if self._read.get(node) != mark:
                    content = file.read_bytes()
                    self._read[node] = mark
                    yield node, content
            except FileNotFoundError:
                continue  # the kubelet has written none yet


class Checkpoints:
    """What containers have by device plugins."""

    def __init__(self, folders: Mapping[str, Path], resources: Iterable[str]) -> None:
        """Args: folders: node -> its kubelet's folder ``device-plugins``; resources: whose devices count."""
        self._resources = tuple(resources)
        self._files = _Files({node: folder / NAME for node, folder in folders.items()})

    def changed(self) -> Iterator[tuple[str, PodDevices]]:
        """The nodes whose checkpoint has changed, with what it says now.

        Raises:
            CheckpointError: a file is none.
        """
        for node, content in self._files.changed():
            yield node, self._holdings(content)

    def _holdings(self, content: bytes) -> PodDevices:
        entries: dict[tuple[str, str], frozenset[str]] = {}
        for resource in self._resources:
            for key, devices in decode(content, resource).of_containers.items():
                entries[key] = entries.get(key, frozenset()) | devices
        return PodDevices(entries)


class ClaimCheckpoints:
    """What is prepared for claims, as the kubelets believe."""

    def __init__(self, folders: Mapping[str, Path], driver: str) -> None:
        """Args: folders: node -> its kubelet's folder ``device-plugins``; driver: whose devices count."""
        self._driver = driver
        self._files = _Files({node: folder.parent / claim_states.NAME for node, folder in folders.items()})

    def changed(self) -> Iterator[tuple[str, Mapping[str, Believed]]]:
        """The nodes whose checkpoint has changed, with what it says now.

        Raises:
            msgspec.MsgspecError: a file is none.
        """
        for node, content in self._files.changed():
            yield node, claim_states.decode(content, self._driver)
