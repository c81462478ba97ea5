"""How a test wants its simulated nodes to be: a file that their processes read, so that it outlives them."""

from pathlib import Path
from typing import Final

import msgspec

LABEL: Final = "simulated"
"""Of the simulated nodes, and of no others."""
HANGS: Final = "hangs"
"""Label of a pod whose containers do not end when they are asked to."""
GPUS: Final = 8
_FILE: Final = "churn.json"


class DesiredNodes(msgspec.Struct, frozen=True, kw_only=True):
    """How the nodes are to be."""

    count: int
    """Of nodes that there are at all."""
    gone: tuple[str, ...] = ()
    """Nodes that are away with all that runs on them: their kubelets and their node agents say nothing."""
    ends: bool = False
    """Pods that hang may end now."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes."""
        return tuple(f"simulated-{number:03d}" for number in range(self.count))

    @property
    def present(self) -> tuple[str, ...]:
        """The nodes that are there."""
        return tuple(name for name in self.nodes if name not in self.gone)


def read(state: Path) -> DesiredNodes:
    """What is desired now, from a cluster's folder."""
    return msgspec.json.decode((state / _FILE).read_bytes(), type=DesiredNodes)


def write(state: Path, desired: DesiredNodes) -> None:
    """Replace what is desired."""
    new = state / f"{_FILE}.new"
    new.write_bytes(msgspec.json.encode(desired))
    new.replace(state / _FILE)
