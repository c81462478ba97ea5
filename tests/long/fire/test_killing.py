"""Every round is counted by what has really been done in it: a part that did not die is no crash."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from cluster import names
from devcluster.faultproxy import Call, Lose, Refuse, Rules
from tests.long.fire.give_and_take import AS_IT_SHOULD, Moment, Outcome
from tests.long.fire.killing import Doom, Killing
from tests.long.fire.points import SIDES, Point

NOTICE = b'{"metadata":{"annotations":{"%s":"x"}}}' % names.NOTICE.encode()


@dataclass
class Part:
    """A part that can be killed, or cannot."""

    is_mortal: bool = True
    deaths: int = 0

    def kill(self) -> None:
        if not self.is_mortal:
            message = "it does not die"
            raise ValueError(message)
        self.deaths += 1


@dataclass
class Behind:
    """No proxy, but its rules."""

    parts: dict[str, Part]
    rules: Rules = field(default_factory=Rules)

    @property
    def proxy(self) -> "Behind":
        return self

    def crashed(self) -> str:
        return ""

    def asks(self, verb: str, path: str, body: bytes = b"") -> None:
        """The controller asks; what goes wrong is reported nowhere, as in the threads of the proxy."""
        call = Call(verb=verb, target=f"/api/v1/namespaces/team/{path}", caller=names.CONTROLLER, body=body)
        record = self.rules.decide(call)
        record.status = 201
        if isinstance(record.action, Refuse | Lose):
            try:
                record.action.meanwhile(call)
            except ValueError:
                return


@dataclass
class Story:
    """One pod gets its notice, twice, and one is created, in each half."""

    behind: Behind

    def play(self, reached: Callable[[Moment], object]) -> Outcome:
        moments: tuple[Moment, ...] = ("begun", "served", "over")
        for moment in moments:
            reached(moment)
            if moment != "over":
                for _ in SIDES:
                    self.behind.asks("PATCH", "pods/his-1", NOTICE)
                self.behind.asks("POST", "pods")
        return AS_IT_SHOULD


def carried_out(controller: Part, **limits: float) -> Killing:
    behind: Any = Behind({"controller": controller})
    story: Any = Story(behind)
    carried = Killing(behind, story, lambda _line: None, **limits)
    point = Point(names.CONTROLLER, "PATCH pods +notice")
    carried.carry_out({"taking": [Doom(point, SIDES)]})
    return carried


def test_a_kill_is_done_when_the_part_has_died_as_often_as_it_was_struck() -> None:
    controller = Part()
    assert [str(doom) for doom in carried_out(controller).done["taking"]] == [
        "controller: PATCH pods +notice, before and after"
    ]
    assert controller.deaths == 2


def test_a_part_that_does_not_die_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="struck 2 times and killed 0 times"):
        carried_out(Part(is_mortal=False), dies_within=0.1)
