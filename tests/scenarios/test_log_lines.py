"""What the parts log while the story is played: a line for each decision, and none twice."""

import json
import logging
from collections import Counter
from typing import Any

import structlog
from structlog.testing import capture_logs

from cluster import names
from cluster.fake.history import ChangeView
from tests.fakes.loglines import SECRETS
from tests.scenarios.conftest import Worlds
from tests.scenarios.story import Story

Line = dict[str, Any]

MAY_BE_SAID_AGAIN = {"the cache is in sync with the API server", "the pod has changed, deciding again"}
"""Of a list that was read, or of an attempt that came to nothing: no decision."""


class Played:
    """The story, what was logged, and what really became of pods and bookings."""

    def __init__(self, new_world: Worlds) -> None:
        usual = structlog.get_config()["wrapper_class"]  # lets nothing but faults through
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
        self.admitted, self.kept = Counter[str](), Counter[str]()
        self.left: set[str] = set()
        self.bookings: set[str] = set()
        with capture_logs() as lines:
            world = new_world()
            world.kube.on_change(self._changed)
            Story(world).play()
        structlog.configure(wrapper_class=usual)
        self.lines: list[Line] = [dict(line) for line in lines]

    def lines_of(self, event: str) -> list[Line]:
        return [line for line in self.lines if line["event"] == event]

    def _changed(self, change: ChangeView) -> None:
        before, after = (each or {"metadata": {}} for each in (change.before, change.after))
        meta, was = after["metadata"], before["metadata"]
        if change.plural == "bookings":
            self.bookings.add((meta or was)["name"])
        if change.plural != "pods" or not change.after:
            return
        key = f"{meta['namespace']}/{meta['name']}"
        if not change.before:
            self.admitted[key] += 1
        hold = _annotation(meta, names.HOLD)
        if hold and hold != _annotation(was, names.HOLD):
            self.kept[key] += 1
        conditions = after.get("status", {}).get("conditions") or ()
        if any(one["type"] == names.DISRUPTION_TARGET for one in conditions):
            self.left.add(meta["uid"])


def _annotation(meta: Line, key: str) -> str | None:
    return (meta.get("annotations") or {}).get(key)


def test_every_decision_is_one_line_and_no_line_is_written_twice(new_world: Worlds) -> None:
    played = Played(new_world)
    real = [line for line in played.lines_of("pod admitted") if not line["dry_run"]]
    assert Counter(line["pod"] for line in real) == played.admitted
    assert Counter(line["pod"] for line in played.lines_of("devices are kept for a pod")) == played.kept
    assert sorted(line["uid"] for line in played.lines_of("a pod is terminating")) == sorted(played.left)
    made = [line for line in played.lines_of("mirrored a booking") if line["verb"] == "create"]
    assert sorted(line["booking"] for line in made) == sorted(played.bookings)
    assert sorted(line["booking"] for line in played.lines_of("a booking is over")) == sorted(played.bookings)
    assert played.admitted
    assert played.kept
    assert played.left

    for text in (json.dumps(line, default=str) for line in played.lines):
        assert not any(pattern.search(text) for pattern in SECRETS.values()), text

    texts = Counter(json.dumps(line, default=str, sort_keys=True) for line in played.lines)
    dry = '"dry_run": true'
    twice = {text for text, times in texts.items() if times > 1 and dry not in text}
    assert {json.loads(text)["event"] for text in twice} <= MAY_BE_SAID_AGAIN
