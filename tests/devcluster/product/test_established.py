"""The wait for a kind may begin as soon as it has been applied."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from devcluster.product.chart import Administration, await_established

SERVED = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]


def test_a_kind_without_conditions_is_read_again_until_it_is_established() -> None:
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
