"""What uses a GPU, by the real cgroups of a real kubelet: in metrics, in an Event, and for people."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from booking.cli import server_connection
from booking.cli.__main__ import gpu as command_line
from cluster import names
from devcluster import probe
from devcluster.fakenvml.fake import FakeNvml, RunningProcess
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import HOSTNAME, Playground

pytestmark = pytest.mark.e2e

NODE = "node-a"
GIB = 1 << 30


@pytest.fixture
def fake(parts: Parts) -> Iterator[FakeNvml]:
    """The GPUs of a node, on which nothing runs at the end."""
    found = parts.fake_nvml(NODE)
    yield found
    for uuid in found.uuids():
        found.processes(uuid)


def a_process_of(uid: str) -> int:
    """The pid of a process of a pod, as the cluster's daemons see it in their own PID namespace."""
    marks = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                cgroup, status = (folder / "cgroup").read_text(), (folder / "status").read_text()
            except OSError:
                continue
            if any(mark in cgroup for mark in marks):
                (numbers,) = (line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:"))
                return int(numbers[1])
    raise AssertionError(f"No process is in the control groups of pod {uid}.")


def test_use_and_squatters_are_reported_from_the_running_processes(
    parts: Parts, playground: Playground, alice: Person, fake: FakeNvml
) -> None:
    there = {"nodeSelector": {HOSTNAME: NODE}}
    holder = alice.create(probe.pod("holder", [probe.container("main", gpus=1)], extra=there))
    lodger = playground.create(probe.pod("lodger", [probe.container("main")], extra=there))
    playground.await_phase([holder, lodger])
    (device,) = playground.assignment(holder)["main"]
    daemon = 1  # the first process of the cluster: of no pod
    uids = {name: playground.pod(name).metadata.uid for name in (holder, lodger)}
    fake.used(device, percent=87, degrees=61, watts=288)
    fake.processes(
        device,
        RunningProcess(a_process_of(uids[holder]), 3 * GIB),
        RunningProcess(a_process_of(uids[lodger]), GIB),
        RunningProcess(daemon, 2 * GIB),
    )
    agent = parts.agent(NODE)

    def lines(name: str) -> list[str]:
        shown = parts.ask(agent, "/metrics")[1].splitlines()
        return [line for line in shown if line.startswith(f"{names.METRICS_PREFIX}_agent_{name}{{")]

    squatters = playground.await_that(
        "both squatters are counted", lambda: found if len(found := lines("squatters")) == 2 else None
    )
    assert any(f'pod="{lodger}"' in line for line in squatters)
    assert any('pod=""' in line for line in squatters)
    (used,) = lines("pod_memory_bytes")
    assert f'pod="{holder}",user="alice"' in used
    assert float(used.split()[-1]) == 3 * GIB
    playground.await_node_event(NODE, f"of pod {playground.namespace}/{lodger} uses GPU")
    playground.await_node_event(NODE, "of no pod")

    def seen() -> dict[str, object] | None:
        shown = alice.rest.ask("GET", "/now").body
        devices = {one["uuid"]: one for node in shown["nodes"] for one in node["devices"]}
        return devices[device] if len(devices[device]["squatters"]) == 2 else None

    now = playground.await_that("the booking server knows", seen)
    assert now["use"] == {
        "utilisation_percent": 87,
        "memory_used_mib": 0,
        "temperature_celsius": 61,
        "power_watts": 288,
    }
    assert now["pods"][0]["memory_used_mib"] == 3 * 1024
    given = {
        server_connection.URL: parts.booking_url,
        server_connection.TOKEN: parts.people.token("alice", names.AUDIENCE),
        "KUBECONFIG": "/nowhere",
    }
    text = CliRunner().invoke(command_line, ("status", NODE), env=given, catch_exceptions=False).stdout
    assert [line.split()[3] for line in text.splitlines()].count("squatter") == 2
    assert "87 %" in text

    playground.delete(holder)
    playground.await_that("its series are gone", lambda: not lines("pod_memory_bytes"))


def test_the_holders_of_gpus_are_shown_only_to_clients_on_the_node(
    parts: Parts, playground: Playground, alice: Person
) -> None:
    there = {"nodeSelector": {HOSTNAME: NODE}}
    name = alice.create(probe.pod("mine", [probe.container("main", gpus=2)], extra=there))
    playground.await_phase([name])
    status, text = parts.ask(parts.agent(NODE), "/holders")
    assert status == 403, "the agent is asked from outside"
    assert name not in text
