from cluster.kube.backoff import Backoff


class Highest:
    """Random numbers that are always the highest."""

    def uniform(self, _a: float, b: float, /) -> float:
        return b


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(first=1, longest=5, random=Highest())
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]


def test_pauses_start_again_after_a_success() -> None:
    backoff = Backoff(first=1, longest=5, random=Highest())
    backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == 1


def test_pauses_are_spread_between_half_and_all_of_their_length() -> None:
    backoff = Backoff(first=1, longest=1)
    assert all(0.5 <= backoff.next() <= 1 for _ in range(100))
