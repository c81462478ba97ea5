"""People are shown what the controller does at the end of a booking: one value sets it for both parts."""

from typing import Any

import pytest

from booking.controller.settings import ControllerSettings
from booking.server.settings import ServerSettings
from cluster.process.settings import load
from tests.charts.conftest import Render
from tests.long.charts.test_pods_rendered import environment, workloads

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("settings", "bare", "owned"),
    [
        ({}, "recreate-without-gpu", "demote"),
        ({"end_action_without_controller": "delete"}, "delete", "demote"),
        (
            {"end_action_with_controller": "recreate-without-gpu"},
            "recreate-without-gpu",
            "recreate-without-gpu",
        ),
        (
            {"end_action_without_controller": "demote", "end_action_with_controller": "delete"},
            "demote",
            "delete",
        ),
    ],
)
def test_the_server_has_the_controllers_end_action(
    render: Render, settings: dict[str, str], bare: str, owned: str
) -> None:
    found = workloads(render({"controller": {"settings": settings}}))

    def given(part: str) -> dict[str, str]:
        return environment(found[part]["spec"]["containers"][0])

    for loaded in (load(ControllerSettings, given("controller")), load(ServerSettings, given("server"))):
        assert (loaded.end_action_without_controller, loaded.end_action_with_controller) == (bare, owned)


def test_for_a_controller_outside_the_cluster_the_servers_own_settings_give_the_end_action(
    render: Render,
) -> None:
    values: dict[str, Any] = {
        "controller": {"external": {"address": "192.0.2.10", "port": 9443}},
        "server": {"settings": {"end_action_without_controller": "delete"}},
    }
    server = workloads(render(values))["server"]["spec"]["containers"][0]
    assert load(ServerSettings, environment(server)).end_action_without_controller == "delete"
