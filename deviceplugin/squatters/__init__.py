"""Processes on a GPU that no pod holds, or of a pod that does not hold it."""

from deviceplugin.squatters.cgroups import Place, place_of
from deviceplugin.squatters.judging import (
    Squatting,
    Suspects,
    Where,
    families,
    squatting,
    used_by_pods,
    wheres,
)
from deviceplugin.squatters.processes import Processes, Seen

__all__ = [
    "Place",
    "Processes",
    "Seen",
    "Squatting",
    "Suspects",
    "Where",
    "families",
    "place_of",
    "squatting",
    "used_by_pods",
    "wheres",
]
