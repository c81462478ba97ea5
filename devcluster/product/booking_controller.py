"""The booking controller in a development cluster: webhook and reclaimer."""

import sys
from collections.abc import Mapping
from typing import Final

from cluster import names
from devcluster.product.part import Part
from devcluster.product.people import IDENTITY_RULES

NAME: Final = "booking-controller"
ACCOUNT: Final = names.CONTROLLER
PORT: Final = 9443
"""Port of the first controller's webhook, to which the Service leads; others have the ports after it."""


def part(*, name: str, number: int, settings: Mapping[str, str]) -> Part:
    """How a controller is started.

    Args:
        name: of the daemon; a second controller needs another.
        number: 0 for the one to which the Service leads, 1 for the next ...
        settings: environment that has priority: its account's, and what differs from the default.
    """
    port = PORT + 2 * number
    environment = {
        names.setting("instance"): name,
        names.setting("webhook_port"): str(port),
        names.setting("probe_port"): str(port + 1),
        names.setting("identity_rules"): IDENTITY_RULES,
        **settings,
    }
    program = (sys.executable, "-m", "booking.controller")
    return Part(name=name, program=program, environment=environment, probes=port + 1)
