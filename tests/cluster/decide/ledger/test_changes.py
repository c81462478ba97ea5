from cluster.decide.ledger.changes import SPARE, Changes


def recorded(*names: str) -> Changes:
    changes = Changes()
    for name in names:
        changes.note(name, existing=3)
    return changes


def test_each_change_since_a_number_is_listed_once_newest_first() -> None:
    changes = recorded("a", "b", "a", "c")
    assert changes.since(0) == ["c", "a", "b"]
    assert changes.since(2) == ["c", "a"]
    assert changes.since(changes.number) == []


def test_a_reader_that_lags_too_far_behind_must_read_everything() -> None:
    changes = recorded(*(f"n{number}" for number in range(SPARE + 7)))
    assert changes.since(0) is None
    assert changes.since(1) == [f"n{number}" for number in reversed(range(1, SPARE + 7))]
