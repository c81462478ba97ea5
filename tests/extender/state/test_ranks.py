"""Which nodes may still be chosen, by their scores."""

from hypothesis import given
from hypothesis import strategies as st

from extender.state.ranks import Ranks

NODES = tuple(f"n{number}" for number in range(6))
SOME = st.sets(st.sampled_from(NODES))


@given(
    changes=st.lists(st.tuples(st.sampled_from(NODES), st.one_of(st.none(), st.integers(0, 10)))),
    margin=st.integers(1, 10),
    without=SOME,
    instead=st.dictionaries(st.sampled_from(NODES), st.integers(0, 10)),
)
def test_those_that_are_less_than_the_margin_behind_the_best_are_found(
    changes: list[tuple[str, int | None]], margin: int, without: set[str], instead: dict[str, int]
) -> None:
    ranks, scores = Ranks(), dict[str, int]()
    for name, score in changes:
        if score is None:
            ranks.forget(name)
            scores.pop(name, None)
        else:
            ranks.write(name, score)
            scores[name] = score
    now = {name: instead.get(name, score) for name, score in scores.items() if name not in without}
    best = [name for name, score in now.items() if score > max(now.values()) - margin]

    found = ranks.near_the_best(margin, without, instead)

    assert sorted(now if found is None else found) == sorted(best)
    assert found is None or len(found) < len(now)
