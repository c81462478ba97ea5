"""The table of recoveries shows how often each target was struck, and how soon it had recovered."""

from tests.long.chaos.plan import part_of, targets_of
from tests.long.chaos.recoveries import MEANS, Recovery, table


def test_every_part_that_can_be_struck_has_a_definition_of_recovery() -> None:
    assert {part_of(target) for target in targets_of(("node-a", "node-b"))} == MEANS.keys()


def test_a_line_has_the_median_and_the_longest() -> None:
    struck = [("killed", 2.0), ("killed", 4.0), ("deleted", 30.0)]
    lines = table([Recovery(part="etcd", kind=kind, seconds=seconds) for kind, seconds in struck])
    assert lines[0].split() == ["part", "killed", "deleted", "paused", "p50", "s", "max", "s"]
    assert lines[1].split() == ["etcd", "2", "1", "0", "4.0", "30.0"]
    assert lines[2:] == ["Recovered means:", f"  etcd: {MEANS['etcd']}"]
