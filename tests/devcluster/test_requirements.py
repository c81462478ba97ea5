"""What a start asks of the machine, and changes on it."""

from pathlib import Path

import pytest

from devcluster.requirements import make_room


@pytest.mark.parametrize(("before", "after"), [("128\n", 1024), ("1024\n", 1024), ("8192\n", 8192)])
def test_there_is_room_for_the_kubelets_of_many_clusters(tmp_path: Path, before: str, after: int) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text(before)
    make_room(limit)
    assert int(limit.read_text()) == after


def test_a_limit_that_cannot_be_raised_is_left_as_it_is() -> None:
    make_room(Path("/proc/sys/kernel/cap_last_cap"))  # a small number that nobody may write
