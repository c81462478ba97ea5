"""The nodes that fit one request, by their score: those that may still be chosen are found by a look at few.

Only nodes that have changed since are scored again, when the verdict on them is renewed.
"""

from collections.abc import Collection, Mapping
from itertools import chain
from typing import Final

NOTHING: Final[Mapping[str, int]] = {}


class Ranks:
    """Nodes by score. Its owner must ensure that no thread reads it while another writes."""

    def __init__(self) -> None:
        self._scores: dict[str, int] = {}
        self._by_score: dict[int, dict[str, None]] = {}
        """Score -> its nodes; a score that no node has is missing."""

    def write(self, name: str, score: int) -> None:
        """Set the score of a node that fits."""
        if self._scores.get(name) != score:
            self.forget(name)
            self._scores[name] = score
            self._by_score.setdefault(score, {})[name] = None

    def forget(self, name: str) -> None:
        """Remove a node that does not fit any more."""
        score = self._scores.pop(name, None)
        if score is not None:
            there = self._by_score[score]
            del there[name]
            if not there:
                del self._by_score[score]

    def of(self, name: str) -> int | None:
        """The score of a node; None if the pod does not fit there."""
        return self._scores.get(name)

    def near_the_best(
        self, margin: int, without: Collection[str] = (), instead: Mapping[str, int] = NOTHING
    ) -> list[str] | None:
        """The nodes that are less than ``margin`` behind the best one; None if all are.

        Args:
            margin: a number of points.
            without: nodes that do not count this time; many are as quick as few.
            instead: the scores that some nodes have this time; a few.
        """
        gone = frozenset(without)
        other = {name: score for name, score in instead.items() if name in self._scores and name not in gone}
        missing = gone.union(other)
        usual = [score for score, there in self._by_score.items() if not there.keys() <= missing]
        least = max(chain(usual, other.values()), default=0) - margin
        if all(score > least for score in chain(usual, other.values())):
            return None
        found = [name for name, score in other.items() if score > least]
        for score in usual:
            if score > least:
                there = self._by_score[score]
                found += (name for name in there if name not in missing) if missing else there
        return found
