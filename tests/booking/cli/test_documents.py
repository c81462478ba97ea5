"""The commands of README and docs/cli.md are run: the README's in their order, the others each alone."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from booking.cli import server_connection
from booking.cli.__main__ import gpu
from booking.server.capacity.capacity import Capacity
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.process.probes import serve
from tests.architecture import commands
from tests.architecture.checkout import ROOT
from tests.booking.server.web.pages.site import Site
from tests.fakes.objects import A100, a100, a_lease, a_node, a_pod

OURS = "kubectl gpu "


def blocks_of(document: str) -> list[list[str]]:
    """The blocks of a document that type our command, one list of commands each."""
    blocks = commands.blocks_in((ROOT / document).read_text())
    return [ours for block in blocks if (ours := [each for each in block if each.startswith(OURS)])]


FIRST = blocks_of("README.md")
BY_ITSELF = [command for block in blocks_of("docs/cli.md") for command in block]
A_BOOKING = re.compile(r"\bb-[a-z0-9]{10}\b")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Site, str]]:
    """Eight A100s, and a pod of alice's that waits for more than there are."""
    made = Site(tmp_path)
    made.clock.advance(4 * 86400)  # it is Friday: "mon 09:00" is in the future
    made.capacity = Capacity({A100: {"gpu-a1": 4, "gpu-a2": 4}})
    made.cache.of(NODES).replace(
        [a_node(node, *(a100(n, node) for n in range(4))) for node in ("gpu-a1", "gpu-a2")]
    )
    for node in ("gpu-a1", "gpu-a2"):
        made.cache.of(LEASES).upsert(a_lease(node, renewed=made.clock.now()))
    pod = a_pod("training-0").of("alice").asks(5).obj
    made.cache.of(PODS).upsert(replace(pod, metadata=replace(pod.metadata, namespace="vision")))
    server = serve(made.app, "127.0.0.1", 0)
    yield made, f"http://127.0.0.1:{server.port}"
    server.close()
    made.store.close()


def typed(site: tuple[Site, str], command: str) -> str:
    """The output of a command of alice's that succeeds."""
    given = {server_connection.URL: site[1], server_connection.TOKEN: "alice-token", "KUBECONFIG": "/nowhere"}
    words = shlex.split(command.removeprefix(OURS))
    done = CliRunner().invoke(gpu, words, env=given, obj=site[0].clock, catch_exceptions=False)
    assert done.exit_code == 0, f"{command}: {done.output}"
    assert done.output
    return done.stdout


def test_the_commands_of_the_readme_work_in_their_order(site: tuple[Site, str]) -> None:
    (block,) = FIRST
    booked, listed, why = (typed(site, command) for command in block)
    made = A_BOOKING.search(booked)
    assert made
    assert made[0] in listed
    assert "vision/training-0" in why


@pytest.mark.parametrize("command", BY_ITSELF)
def test_each_command_of_the_manual_works(command: str, site: tuple[Site, str]) -> None:
    if A_BOOKING.search(command):
        made = A_BOOKING.search(typed(site, FIRST[0][0]))
        assert made
        command = A_BOOKING.sub(made[0], command)
    typed(site, command)
