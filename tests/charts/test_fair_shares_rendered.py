"""What Helm makes for fair shares: the right to their record, and the policy."""

from collections.abc import Mapping
from typing import Any

import pytest

from booking.policy.reading import read_policy
from cluster import names
from tests.charts.conftest import Render
from tests.charts.test_rendered import of_kind

pytestmark = pytest.mark.component

MAIA = {"maia": {"enabled": True}}


def may_record(render: Render, values: Mapping[str, Any] | None = None) -> bool:
    rules = of_kind(render(values), "Role")[names.CONTROLLER]["rules"]
    return any(names.SHARES_RECORD in rule.get("resourceNames", ()) for rule in rules)


def test_the_controller_may_keep_its_record_wherever_shares_can_be_on(render: Render) -> None:
    assert may_record(render)
    assert not may_record(render, MAIA)
    assert may_record(render, MAIA | {"server": {"policy": {"fair_shares": {"mode": "order"}}}})


@pytest.mark.parametrize("off", ["off", False])
def test_off_is_off_however_it_is_written_in_a_file_of_values(render: Render, off: object) -> None:
    documents = render({"server": {"policy": {"fair_shares": {"mode": off}}}})
    text = of_kind(documents, "ConfigMap")["gpu-booking-policy"]["data"]["policy.yaml"]
    assert read_policy(text).fair_shares.mode == "off"
