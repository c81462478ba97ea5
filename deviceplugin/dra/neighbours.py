"""Who else gives out this node's GPUs: another plugin by ``nvidia.com/gpu``, or another driver by claims."""

from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)


class Neighbours:
    """As last seen. Asked from any thread, looked for by one."""

    def __init__(self, plugin: Callable[[], str | None] = lambda: None) -> None:
        """Args: plugin: returns which plugin is there, for people; None without another one."""
        self._plugin = plugin
        self._last = plugin()

    def __call__(self) -> str | None:
        """Who is there, for people; None if nobody else is."""
        return self._last

    def beside_a_plugin(self) -> str | None:
        """The same about plugins alone, at this moment."""
        return self._plugin()

    def look(self, driver: str | None) -> bool:
        """Look again; returns whether something has changed. Args: driver: what is known of other drivers."""
        before, self._last = self._last, driver or self._plugin()
        if self._last == before:
            return False
        if self._last is None:
            log.info("nobody else gives out this node's GPUs any more")
        else:
            log.error("somebody else gives out this node's GPUs", message=self._last)
        return True
