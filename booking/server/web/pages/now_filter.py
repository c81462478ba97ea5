"""What a visitor of *Now* wants to see: of which nodes, models and standings, and which page. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self
from urllib.parse import urlencode

from booking.server.cluster_status import DeviceNow, NodeNow
from cluster import names

CARDS: Final = 12
"""Nodes of a page that are shown with all details."""
_LONGEST_NUMBER: Final = 6
_LONGEST_TEXT: Final = 253
"""Letters of a filter that count: no name of Kubernetes is longer."""


@dataclass(frozen=True)
class NowFilter:
    """The filter in the query; an empty text leaves nothing out."""

    node: str = ""
    """A part of the node's name."""
    model: str = ""
    """In label form."""
    standing: str = ""
    """A standing, or a state that has none: ``unhealthy``."""
    mine: bool = False
    """Only devices of the visitor's pods."""
    page: int = 0
    """Counted from 0."""

    @classmethod
    def of(cls, args: Mapping[str, str]) -> Self:
        """The filter in a query; what cannot be read leaves nothing out."""
        page = args.get("page", "")
        is_number = page.isascii() and page.isdecimal() and len(page) <= _LONGEST_NUMBER
        return cls(
            node=args.get("node", "").strip()[:_LONGEST_TEXT],
            model=names.model_label(args.get("model", "").strip()[:_LONGEST_TEXT]),
            standing=args.get("standing", "")[:_LONGEST_TEXT],
            mine=bool(args.get("mine")),
            page=max(0, int(page) - 1) if is_number else 0,
        )

    @property
    def is_any(self) -> bool:
        """Whether something is left out."""
        return replace(self, page=0) != NowFilter()

    @property
    def address(self) -> str:
        """The page with this filter."""
        query = {
            "node": self.node,
            "model": self.model,
            "standing": self.standing,
            "mine": "1" if self.mine else "",
            "page": str(self.page + 1) if self.page else "",
        }
        given = urlencode({name: value for name, value in query.items() if value})
        return f"/now?{given}" if given else "/now"

    def devices(self, node: NodeNow, user: str) -> tuple[DeviceNow, ...]:
        """The devices of a node that are wanted."""
        if self.node.casefold() not in node.node.casefold():
            return ()
        return tuple(device for device in node.devices if self._wants(device, user))

    def shows(self, node: NodeNow, user: str) -> bool:
        """Whether a node is wanted: one without devices is, unless devices are asked for."""
        if self.devices(node, user):
            return True
        is_asked = self.model or self.standing or self.mine
        return not node.devices and not is_asked and self.node.casefold() in node.node.casefold()

    def _wants(self, device: DeviceNow, user: str) -> bool:
        return (
            self.model in {"", names.model_label(device.model)}
            and self.standing in {"", device.standing or device.state}
            and (not self.mine or any(pod.user == user for pod in device.pods))
        )
