"""How each part is started: its ports, its environment, and whose settings win."""

import json
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from booking.controller.settings import ControllerSettings
from booking.server.settings import ServerSettings
from cluster import names
from cluster.process.settings import load
from devcluster.product import (
    booking_controller,
    booking_server,
    extender,
    gpu_scheduler,
    identity,
    node_agent,
)
from devcluster.product.part import Part
from deviceplugin.settings import Settings as AgentSettings
from extender.settings import Settings as ExtenderSettings
from tests.devcluster.product.cluster import FakeCluster

S = TypeVar("S", bound=msgspec.Struct)
TOKEN = names.setting("kube_token_file")


@pytest.fixture
def account(tmp_path: Path) -> dict[str, str]:
    return identity.environment(FakeCluster(tmp_path), tmp_path, names.EXTENDER)


def read(part: Part, into: type[S]) -> S:
    assert part.environment is not None
    return load(into, part.environment)


def agent(port: int, settings: dict[str, str], folder: Path) -> Part:
    return node_agent.part(
        node="node-a",
        name="node-agent",
        port=port,
        program=node_agent.PROGRAM,
        gpus=folder,
        settings=settings,
    )


def test_every_part_accepts_its_settings_and_authenticates_as_its_account(
    account: dict[str, str], tmp_path: Path
) -> None:
    server = read(booking_server.part(database=tmp_path / "b.db", settings=account), ServerSettings)
    controller = read(
        booking_controller.part(name="controller", number=0, settings=account), ControllerSettings
    )
    scheduling = read(extender.part(account), ExtenderSettings)
    on_node = read(agent(9500, account, tmp_path), AgentSettings)
    for settings in (server, controller, scheduling, on_node):
        assert settings.kube_server == "https://192.0.2.1:6443"
        assert settings.kube_token_file == tmp_path / "gpu-booking-extender.token"
    assert server.database == f"sqlite:///{tmp_path}/b.db"
    assert server.identity_rules == controller.identity_rules
    assert controller.webhook_port == booking_controller.PORT


def test_settings_of_a_test_win_over_the_defaults(account: dict[str, str], tmp_path: Path) -> None:
    changed = account | {"GPU_BOOKING_COOLDOWN": "PT0S", "GPU_BOOKING_PROBE_PORT": "7"}
    settings = read(booking_server.part(database=tmp_path / "b.db", settings=changed), ServerSettings)
    assert settings.cooldown == "PT0S"
    assert settings.probe_port == 7


def test_the_token_of_a_node_agent_is_bound_to_its_node(tmp_path: Path) -> None:
    cluster = FakeCluster(tmp_path)
    found = {
        Path(identity.environment(cluster, tmp_path, names.NODE_AGENT, node=node)[TOKEN]).read_text()
        for node in ("node-a", "node-b")
    }
    assert {token.rpartition(" on ")[2] for token in found} == {"node-a", "node-b"}


def test_a_single_scheduler_can_run_without_leader_election(tmp_path: Path) -> None:
    gpu_scheduler.part(
        kubebox=Path("/kubebox"), kubeconfig=tmp_path / "kubeconfig", folder=tmp_path, elects=False
    )
    profile = json.loads((tmp_path / f"{gpu_scheduler.NAME}.json").read_text())
    assert profile["leaderElection"] == {"leaderElect": False}
