"""Plays the story of `give_and_take` again and again, and kills a part at one point of each half of it."""

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from devcluster.demo.reporter import Reporter
from devcluster.wait import poll
from tests.laws.live import LiveWatch
from tests.long.fire.give_and_take import AS_IT_SHOULD, GiveAndTake, Moment
from tests.long.fire.points import Point, Side, created, points_of
from tests.long.fire.proxied import DIES_WITHIN, PartName, Proxied

Half = Literal["taking", "giving back"]
"""Until hers is served and his is back; and the end of her booking."""
ALWAYS: Final[Mapping[Half, frozenset[str]]] = {
    "taking": frozenset(
        {
            "server: POST bookings",
            "server: its Lease",
            "extender: POST pods/binding",
            "controller: PATCH pods +hold",
            "controller: POST pods dry run",
            "controller: POST podtemplates",
            "controller: PATCH pods +notice +comeback +finalizers",
            "controller: POST pods/eviction",
            "controller: PATCH podtemplates +due",
            "controller: PATCH pods -finalizers",
            "controller: POST pods",
            "controller: DELETE podtemplates",
            "controller: PATCH pods -comeback -finalizers",
        }
    ),
    "giving back": frozenset(
        {
            "server: PATCH bookings +end",
            "controller: PATCH bookings/status +back +ending",
            "controller: POST pods dry run",
            "controller: POST podtemplates",
            "controller: PATCH pods +comeback +finalizers",
            "controller: PATCH pods/status +conditions",
            "controller: DELETE pods",
            "controller: PATCH podtemplates +due",
            "controller: PATCH pods -finalizers",
            "controller: POST pods",
            "controller: DELETE podtemplates",
            "controller: PATCH pods -comeback -finalizers",
        }
    ),
}
"""Without these there is no eviction, no comeback and no end: so much at least must have been tried."""
TRIES: Final = 3
"""Rounds in which a call does not come before it counts as one that the story does not need."""
Say = Callable[[str], object]


def reporting(laws: LiveWatch) -> Say:
    """Writes a line to the test's output, and to the history of the laws as a fault."""
    reporter = Reporter(sys.stdout)

    def say(line: str) -> None:
        laws.fault(line)
        reporter.say("every call", line)

    return say


@dataclass(frozen=True)
class Doom:
    """Where and how a part is killed in one half of a round."""

    point: Point
    sides: tuple[Side, ...]
    """Of its first call of that kind, then of the next one."""
    tries: int = 1

    def __str__(self) -> str:
        return f"{self.point}, {' and '.join(self.sides)}"


@dataclass
class Killing:
    """What a test needs of it."""

    behind: Proxied
    story: GiveAndTake
    say: Say
    dies_within: float = DIES_WITHIN
    """Seconds."""
    done: dict[Half, list[Doom]] = field(default_factory=lambda: {"taking": [], "giving back": []})
    """What has been carried out, with the story's end as it should be."""
    unneeded: list[Doom] = field(default_factory=list)
    """Calls that did not come in some rounds."""

    def undisturbed(self) -> dict[Half, list[Point]]:
        """The points of each half."""
        return self._play({})

    def carry_out(self, dooms: Mapping[Half, Sequence[Doom]]) -> None:
        """All of them, one of each half in one round."""
        waiting = {half: deque(each) for half, each in dooms.items()}
        while any(waiting.values()):
            now: dict[Half, Doom] = {half: each.popleft() for half, each in waiting.items() if each}
            self._play(now)
            for half, doom in now.items():
                if doom in self.done[half]:
                    continue
                if doom.tries == TRIES:
                    self.unneeded.append(doom)
                else:
                    waiting[half].append(Doom(doom.point, doom.sides, doom.tries + 1))
        done = sum(len(doom.sides) for each in self.done.values() for doom in each)
        self.say(f"killed at {done} points; not needed: {[str(doom) for doom in self.unneeded]}")

    def missing(self) -> list[str]:
        """Calls without which there is no story, and at which nobody was killed."""
        return [
            f"{half}: {call}"
            for half, always in ALWAYS.items()
            for call in sorted(always - {str(doom.point) for doom in self.done[half]})
        ]

    def _play(self, dooms: Mapping[Half, Doom]) -> dict[Half, list[Point]]:
        found: dict[Half, list[Point]] = {}
        before: dict[Half, int] = {}
        rules = self.behind.proxy.rules

        def begin(half: Half) -> None:
            doom, before[half] = dooms.get(half), self._deaths
            rules.set(*(doom.point.rules(doom.sides, self._kill) if doom else ()))

        def end(half: Half) -> None:
            records, doom = rules.records, dooms.get(half)
            found[half] = points_of(records)
            assert created(records) == 1, f"{half}: {created(records)} pods were created, {doom}"
            struck = sum(rules.times(rule) for rule in rules.rules)
            # What goes wrong in a thread of the proxy is reported nowhere: a part that did not die, say.
            assert poll(lambda: self._deaths - before[half] == struck, seconds=self.dies_within), (
                f"{half}: {doom} struck {struck} times and killed {self._deaths - before[half]} times"
            )
            if doom and struck == len(doom.sides):
                self.done[half].append(doom)

        def reached(moment: Moment) -> None:
            if moment == "begun":
                begin("taking")
            elif moment == "served":
                end("taking")
                begin("giving back")
            else:
                end("giving back")
                rules.set()

        self.say(" | ".join(f"{half}: {doom}" for half, doom in dooms.items()) or "undisturbed")
        assert self.story.play(reached) == AS_IT_SHOULD, dooms
        assert not self.behind.crashed()
        return found

    def _kill(self, name: PartName) -> None:
        self.behind.parts[name].kill()

    @property
    def _deaths(self) -> int:
        """Of all parts so far."""
        return sum(part.deaths for part in self.behind.parts.values())
