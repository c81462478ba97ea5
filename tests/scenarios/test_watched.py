"""The laws are judged at the end of every world, whoever has swallowed what was raised before."""

from contextlib import suppress
from pathlib import Path

import pytest

from cluster.kube.resources import BOOKINGS
from tests.laws.broken import LawBrokenError
from tests.scenarios.world import World


def test_a_law_that_was_broken_unheard_is_told_at_the_end(tmp_path: Path) -> None:
    with pytest.raises(LawBrokenError, match="99 x"):
        overbooked_unheard(tmp_path)


def overbooked_unheard(folder: Path) -> None:
    with World(folder) as world, suppress(LawBrokenError):
        begin, end = (f"{world.at(hours=hour):%Y-%m-%dT%H:%M:%SZ}" for hour in (0, 1))
        spec = {"user": "alice", "model": "NVIDIA-A100-SXM4-40GB", "count": 99, "start": begin, "end": end}
        world.kube.put(BOOKINGS, {"metadata": {"name": "b-99"}, "spec": spec})
