"""Nodes, devices and their holders, and why a pod waits; all in words that people understand."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from booking.cli import server_connection
from booking.cli.__main__ import gpu
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.process.probes import serve
from tests.booking.server.web.pages.site import Site
from tests.booking.server.web.pages.test_queue_page import contended, foreseen
from tests.browser.sample_data import add_bookings, add_cluster
from tests.fakes.objects import a_lease, a_node, a_pod, shared_gpu


@contextmanager
def served(folder: Path) -> Iterator[tuple[Site, str]]:
    made = Site(folder)
    add_bookings(made)
    add_cluster(made)
    server = serve(made.app, "127.0.0.1", 0)
    yield made, f"http://127.0.0.1:{server.port}"
    server.close()
    made.store.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, str]]:
    """For tests that only read."""
    with served(tmp_path_factory.mktemp("site")) as one:
        yield one


def run(site: tuple[Site, str], *words: str) -> Result:
    """One command of alice's."""
    given = {server_connection.URL: site[1], server_connection.TOKEN: "alice-token", "KUBECONFIG": "/nowhere"}
    return CliRunner().invoke(gpu, words, env=given, obj=site[0].clock, catch_exceptions=False)


def test_every_gpu_has_a_line_with_its_holder(site: tuple[Site, str]) -> None:
    rows = [line.split() for line in run(site, "status", "gpu-a2").stdout.splitlines()[1:]]
    assert [row[:2] for row in rows] == [["gpu-a2", str(index)] for index in range(4)]
    assert rows[0][3:6] == ["lent", "alice", "vision/sweep-7"]
    assert rows[2][3:5] == ["unhealthy", "-"]


TABLES = (
    "status",
    "status --next",
    "queue",
    "bookings",
    "bookings --all-users",
    "admin audit",
    "admin blocks",
    "admin exemptions",
)


@pytest.mark.parametrize("words", TABLES)
def test_tables_fit_a_hundred_columns(site: tuple[Site, str], words: str) -> None:
    site[0].signing_in.administrators.add("alice")
    table = run(site, *words.split()).stdout
    site[0].signing_in.administrators.discard("alice")
    assert max(map(len, table.splitlines())) <= 100


def test_the_queue_says_when_gpus_are_taken_back(tmp_path: Path) -> None:
    made = Site(tmp_path)
    contended(made)
    server = serve(made.app, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.port}"
    before = run((made, address), "queue").stdout
    foreseen(made, "alice-1", timedelta(hours=1))
    after = run((made, address), "queue").stdout
    server.close()
    made.store.close()
    assert "TAKEN BACK" not in before
    (alice,) = (line for line in after.splitlines() if "alice-1" in line)
    assert "TAKEN BACK" in after
    assert "10:00" in alice


def test_the_use_of_every_gpu_is_shown(site: tuple[Site, str]) -> None:
    text = run(site, "status", "gpu-a1", "-o", "wide").stdout
    first = text.splitlines()[1]
    assert all(part in first for part in ("96 %", "61/80 GiB", "66 C", "350 W"))
    unknown = run(site, "status", "gpu-b1").stdout.splitlines()[1]
    assert "GiB" not in unknown


def test_a_process_that_does_not_hold_its_gpu_has_a_line_of_its_own(site: tuple[Site, str]) -> None:
    rows = [
        line for line in run(site, "status", "gpu-h1", "-o", "wide").stdout.splitlines() if "squatter" in line
    ]
    assert len(rows) == 2
    assert "a process of no pod" in rows[0]
    assert "18.0 GiB" in rows[0]
    assert "(somebody): a process" in rows[1], "names of others are hidden"
    assert rows[0].split()[:2] == ["gpu-h1", "5"]


def test_an_administrator_is_shown_the_process(site: tuple[Site, str]) -> None:
    site[0].signing_in.administrators.add("alice")
    text = run(site, "status", "gpu-h1", "-o", "wide").stdout
    site[0].signing_in.administrators.discard("alice")
    assert "process 48113 (python3) of no pod" in text
    assert "vision/lab: process 48200 (jupyter)" in text


@pytest.mark.parametrize("words", [("gpu-a2",), ("gpu-a2", "--model", "a100")])
def test_programs_get_only_the_requested_nodes(site: tuple[Site, str], words: tuple[str, ...]) -> None:
    answer = json.loads(run(site, "status", *words, "-o", "json").stdout)
    assert [node["node"] for node in answer["nodes"]] == ["gpu-a2"]
    assert {one["node"] for one in answer["next"]} == {"gpu-a2"}


def test_the_next_pod_to_be_evicted_is_shown_for_the_requested_model(site: tuple[Site, str]) -> None:
    rows = run(site, "status", "--next", "--model", "h100").stdout.splitlines()[1:]
    assert len(rows) == 1
    assert rows[0].split()[:3] == ["NVIDIA-H100-80GB-HBM3", "1", "gpu-h1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gpu-zz",), "No node with GPUs is called 'gpu-zz': there are gpu-a1, gpu-a2, gpu-b1, gpu-h1."),
        (("gpu-a1", "--model", "h100"), "No GPU's model contains 'h100': there are NVIDIA-A100-SXM4-80GB."),
    ],
)
def test_a_wrong_name_is_refused_with_the_existing_names(
    site: tuple[Site, str], words: tuple[str, ...], message: str
) -> None:
    done = run(site, "status", *words)
    assert done.exit_code == 1
    assert message in done.stderr


def test_a_pod_is_explained_in_the_time_zone_of_the_site(site: tuple[Site, str]) -> None:
    text = run(site, "why", "notebook", "--namespace", "vision").stdout
    assert text.startswith("vision/notebook: running, booked")
    assert "until Wed 2026-03-04 09:00 UTC" in text


def test_a_missing_pod_is_reported_in_a_message(site: tuple[Site, str]) -> None:
    done = run(site, "why", "pod/nothing", "--namespace", "vision")
    assert done.exit_code == 1
    assert "nothing" in done.stderr
    assert "Traceback" not in done.output


def test_a_booking_at_risk_is_shown_with_its_alternatives(site: tuple[Site, str]) -> None:
    text = run(site, "bookings", "b-3hd8rvnp2c").stdout
    assert "planned, at risk" in text
    assert (
        "2 x NVIDIA-A100-SXM4-80GB from Thu 2026-03-19 23:00 UTC to Sat 2026-03-21 23:00 UTC (later)" in text
    )
    assert "At risk" not in run(site, "bookings", "b-k7w2m9qx4t").stdout
    assert json.loads(run(site, "bookings", "b-3hd8rvnp2c", "-o", "json").stdout)["at_risk"]


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["done", "dry run"])
def test_a_change_that_removes_the_risk_does_not_mention_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    with served(tmp_path) as own:
        done = run(own, "resize", "b-3hd8rvnp2c", "--gpus", "1", "--output", "json", *options)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["count"] == 1
    assert not {"at_risk", "alternatives"} & answer.keys()


def test_the_state_of_a_gpu_is_how_it_stands_and_by_which_right(tmp_path: Path) -> None:
    with served(tmp_path) as own:
        daemon = a_pod("monitor").of("carol").created(own[0].clock.now()).asks(1).of_a_daemon_set()
        own[0].cache.of(PODS).upsert(daemon.on("gpu-b1", {"main": ("GPU-gpu-b1-1",)}).obj)
        rows = [re.split(r"  +", line) for line in run(own, "status", "-o", "wide").stdout.splitlines()[1:]]
        wide = run(own, "status", "gpu-b1", "-o", "wide").stdout
    states = {(row[0], row[1]): row[3] for row in rows}
    assert states["gpu-a1", "0"] == "in use: booked"
    assert states["gpu-a2", "0"] == "lent"
    assert states["gpu-b1", "1"] == "in use: protected (unresponsive)"
    assert "CLASS" in wide.splitlines()[0]
    assert wide.splitlines()[2].split().count("protected") == 2


def test_a_shared_gpu_has_a_line_with_what_is_held_of_it_and_one_for_each_pod(tmp_path: Path) -> None:
    with served(tmp_path) as site:
        cache = site[0].cache
        cache.of(NODES).upsert(a_node("gpu-s1", shared_gpu(0, "gpu-s1", memory=80_998)))
        cache.of(LEASES).upsert(a_lease("gpu-s1", renewed=site[0].clock.now()))
        for name, memory in (("a", 8_192), ("b", 16_384)):
            pod = a_pod(name).of("alice").shares(memory=memory)
            cache.of(PODS).upsert(pod.on("gpu-s1", {"main": ("GPU-gpu-s1-0",)}).obj)
        _, whole, *parts = run(site, "status", "gpu-s1").stdout.splitlines()
        assert whole.split()[3] == "lent"
        assert "2 pods" in whole
        assert [("default/a" in one, "-/8.0 GiB" in one, "-/16.0 GiB" in one) for one in parts] == [
            (True, True, False),
            (False, False, True),
        ]
        assert max(map(len, run(site, "status").stdout.splitlines())) <= 100
        _, whole, *_ = run(site, "status", "gpu-s1", "-o", "wide").stdout.splitlines()
        assert "24.0 of 79.1 GiB, 2 pods" in whole
