"""Our node agent, whose Allocate is slowed: it waits while a gate is shut. Runs inside a node.

``python gated_agent.py GATE``. Only the waiting is added; all else is the agent as it is shipped.
"""

import sys
import threading
from pathlib import Path
from typing import Any

import structlog

from deviceplugin import __main__ as agent
from deviceplugin.plugin import DevicePlugin

log = structlog.get_logger(__name__)


def slow_down(gate: Path) -> None:
    """Make every Allocate wait for the gate before it answers."""
    answer = DevicePlugin.Allocate
    tick = threading.Event()

    def allocate(self: DevicePlugin, request: Any, context: Any) -> Any:
        requested = [list(container.devices_ids) for container in request.container_requests]
        log.info("allocate is kept waiting", devices=requested)
        response = answer(self, request, context)
        while gate.exists():
            tick.wait(0.01)
        return response

    DevicePlugin.Allocate = allocate  # type: ignore[method-assign] # the one seam that production does not need


if __name__ == "__main__":
    slow_down(Path(sys.argv[1]))
    sys.exit(agent.main())
