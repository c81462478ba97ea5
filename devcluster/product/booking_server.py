"""The booking server in a development cluster: its database lies in the cluster's state and ends with it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cluster import names
from devcluster.product.part import Part
from devcluster.product.people import IDENTITY_RULES

NAME: Final = "booking-server"
ACCOUNT: Final = names.BOOKING_SERVER
PORT: Final = 8080
_PROBES = 8081


def part(*, database: Path, settings: Mapping[str, str]) -> Part:
    """How the booking server is started.

    Args:
        database: the file, made if it is missing.
        settings: environment that has priority: its account's, and what differs from the default.
    """
    environment = {
        names.setting("port"): str(PORT),
        names.setting("probe_port"): str(_PROBES),
        names.setting("database"): f"sqlite:///{database}",
        names.setting("identity_rules"): IDENTITY_RULES,
        **settings,
    }
    return Part(
        name=NAME, program=(sys.executable, "-m", "booking.server"), environment=environment, probes=_PROBES
    )
