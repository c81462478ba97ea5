"""A kind is waited for from the moment at which it was applied."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from devcluster.product.chart import Administration, await_established

SERVED = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]


def test_a_kind_without_a_condition_yet_is_asked_for_again() -> None:
    statuses: Iterator[dict[str, Any]] = iter(
        [
            {},
            {"status": {"conditions": None}},
            {"status": {"conditions": SERVED[:1]}},
            {"status": {"conditions": SERVED}},
        ]
    )
    cluster = SimpleNamespace(kubectl=lambda *_words: json.dumps(next(statuses)))
    await_established(cast("Administration", cluster), "crd/bookings.example.org")
    assert next(statuses, None) is None
