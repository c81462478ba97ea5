"""The driver of long histories finds what goes wrong, reports it in few steps, and reproducibly."""

import pytest

from tests.properties.history import HistoryError, Machine, Pick, play, step


class Jar(Machine):
    """Breaks when more than two large stones are in it at once."""

    def __init__(self) -> None:
        super().__init__()
        self.stones: list[int] = []

    def __repr__(self) -> str:
        return f"a jar with {self.stones}"

    @step(3)
    def put(self, pick: Pick) -> str:
        size = pick.between(0, 9)
        self.stones.append(size)
        return f"a stone of size {size}"

    @step()
    def empty(self, _pick: Pick) -> None:
        self.stones.clear()

    def check(self) -> None:
        assert sum(size >= 5 for size in self.stones) <= 2, "the jar is broken"


class Cup(Machine):
    """Never breaks while it is used, only when it is put away full."""

    def __init__(self) -> None:
        super().__init__()
        self.full = 0

    @step()
    def fill(self, pick: Pick) -> None:
        self.full += pick.between(1, 2)

    def check(self) -> None:
        pass

    def settle(self) -> None:
        assert not self.full, "it was put away full"


class Rock(Machine):
    """Never breaks."""

    @step()
    def kick(self, _pick: Pick) -> None:
        pass

    def check(self) -> None:
        pass


def test_a_broken_law_is_reported_with_the_shortest_history_and_its_seed() -> None:
    with pytest.raises(HistoryError) as broken:
        play(Jar, seed=7, steps=10_000)
    text = str(broken.value)
    assert "HISTORY_SEED=7" in text
    assert text.count("a stone of size") == 3
    assert "the jar is broken" in text
    assert "empty" not in text


def test_the_same_seed_gives_the_same_history() -> None:
    texts = []
    for _ in range(2):
        with pytest.raises(HistoryError) as broken:
            play(Jar, seed=11, steps=1_000)
        steps, _ = str(broken.value).split("  then ")
        texts.append(steps)
    assert texts[0] == texts[1]


def test_conditions_at_the_end_of_a_history_are_checked_as_well() -> None:
    with pytest.raises(HistoryError, match="put away full"):
        play(Cup, seed=1, steps=10)


def test_a_history_without_failures_takes_every_step() -> None:
    assert play(Rock, steps=10_000).steps == 10_000
