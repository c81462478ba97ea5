"""Our parts as they are in the session's cluster: an odd one takes the place of one only for a while."""

from pathlib import Path
from typing import Final

from cluster import names
from devcluster.product import Parts, booking_controller, booking_server, extender
from devcluster.product.part import Part
from tests.e2e.hubs import HUB

POLICY: Final = {"GPU_BOOKING_COOLDOWN": "PT0S", "GPU_BOOKING_SHORTEST_BOOKING": "PT1S"}
"""Environment of the server: tests book again and again."""
WITHOUT_SHARES: Final = {names.setting("policy_file"): str(Path(__file__).with_name("without_shares.yaml"))}
"""Environment of a controller that gives no turns."""
CONTROLLER: Final = {names.setting("trusted_creators"): HUB.user, **WITHOUT_SHARES}
"""Environment of the controller."""


def usual(parts: Parts) -> dict[str, Part]:
    """Name of the daemon -> extender, controller and server."""
    controller = parts._account(booking_controller.ACCOUNT) | CONTROLLER
    server = parts._account(booking_server.ACCOUNT) | POLICY
    found = (
        booking_controller.part(name=booking_controller.NAME, number=0, settings=controller),
        extender.part(parts.of_extender()),
        booking_server.part(database=parts.database, settings=server),
    )
    return {part.name: part for part in found}
