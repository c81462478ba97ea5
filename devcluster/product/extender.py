"""The scheduler extender in a development cluster."""

import sys
from collections.abc import Mapping
from typing import Final

from cluster import names
from devcluster.product.part import Part

NAME: Final = "extender"
ACCOUNT: Final = names.EXTENDER
PORT: Final = 8880
"""Port of the first extender's verbs; others have the ports after it."""


def scheduler(number: int) -> str:
    """The name of an extender's kube-scheduler: its daemon's, and its host's."""
    return f"gpu-scheduler-{number}" if number else "gpu-scheduler"


def port(number: int) -> int:
    """The port of an extender's verbs; its probes have the next one."""
    return PORT + 2 * number


def election(*, elects: bool) -> dict[str, str]:
    """The setting that tells an extender whether its kube-scheduler elects a leader."""
    return {names.setting("leader_election"): str(elects).lower()}


def part(settings: Mapping[str, str], *, name: str = NAME, number: int = 0) -> Part:
    """How an extender is started.

    Args:
        settings: the environment of its account, and anything else to be set.
        name: of the daemon; a second one needs another.
        number: 0 for the first, 1 for the next ...
    """
    verbs, probes = port(number), port(number) + 1
    environment = {
        names.setting("port"): str(verbs),
        names.setting("probe_port"): str(probes),
        names.setting("leader_prefix"): f"{scheduler(number)}_",
        **settings,
    }
    program = (sys.executable, "-m", "extender")
    return Part(name=name, program=program, environment=environment, probes=probes)
