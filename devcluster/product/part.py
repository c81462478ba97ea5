"""How one process of ours is started in a development cluster: a value, made by a module for each part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PATH: Final = "/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A process of the host inside the cluster; restarted when it ends by itself, as by a kubelet."""

    name: str
    """Of the daemon; on a node it is prefixed with the node's."""
    program: Sequence[str]
    """The command line."""
    environment: dict[str, str] | None
    """Environment of the process; None: the caller's."""
    probes: int | None
    """Port of `/healthz`, `/readyz` and `/metrics`; None if they are not of our kind."""
    node: str | None = None
    """Node in whose mounts it runs; None: the host's."""
