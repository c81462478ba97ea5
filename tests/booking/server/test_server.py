"""The booking server's composition root: everything is wired, and missing settings are reported."""

import json
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path

import pytest

from booking.server.__main__ import build
from booking.server.errors import StoreError
from booking.server.settings import ServerSettings
from cluster.fake.clock import FakeClock
from cluster.kube.connection import BadConnectionError
from cluster.process.lifecycle import Process
from cluster.process.probes import ServeError
from cluster.process.settings import SettingsError, load


def variables(folder: Path, **more: str) -> dict[str, str]:
    token = folder / "token"
    token.write_text("t")
    given = {
        "HOST": "127.0.0.1",
        "PORT": "0",
        "PROBE_HOST": "127.0.0.1",
        "PROBE_PORT": "0",
        "DATABASE": f"sqlite:///{folder / 'bookings.db'}",
        "KUBE_SERVER": "http://127.0.0.1:9",
        "KUBE_CA_FILE": str(token),
        "KUBE_TOKEN_FILE": str(token),
        **more,
    }
    return {f"GPU_BOOKING_{name}": value for name, value in given.items()}


def settings(folder: Path, **more: str) -> ServerSettings:
    return load(ServerSettings, variables(folder, **more))


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return str(free.getsockname()[1])


def ended(process: Process) -> int:
    process.end("the test is over")
    return process.run()


def answer(port: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, str]:
    client = HTTPConnection("127.0.0.1", int(port), timeout=10)
    client.request("GET", path, headers=headers or {})
    got = client.getresponse()
    result = got.status, got.read().decode()
    client.close()
    return result


def failing(folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin", **variables(folder, **more)}
    return subprocess.run(
        [sys.executable, "-m", "booking.server"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_whole_process_is_built_and_closed(tmp_path: Path) -> None:
    assert ended(build(settings(tmp_path), FakeClock())) == 0
    assert (tmp_path / "bookings.db").exists()


def test_a_server_is_unready_with_reasons_until_it_has_read_the_cluster_and_mirrored_the_bookings(
    tmp_path: Path,
) -> None:
    probes, web = free_port(), free_port()
    process = build(settings(tmp_path, PROBE_PORT=probes, PORT=web), FakeClock())

    assert answer(probes, "/healthz") == (200, "ok\n")
    status, body = answer(probes, "/readyz")
    assert status == 503
    assert body.splitlines() == [
        "cluster: The pods of the cluster have not been read yet.",
        "mirror: The bookings have not been written to the cluster yet.",
    ]
    status, index = answer(web, "/api/v1")
    assert (status, json.loads(index)["name"]) == (200, "GPU Booking")
    status, metrics = answer(probes, "/metrics")
    for line in (
        "gpu_booking_mirror_store_unknown 0.0",
        "gpu_booking_mirror_age_seconds NaN",
        "gpu_booking_server_cache_staleness_seconds NaN",
        "gpu_booking_server_bookings_at_risk NaN",
        'gpu_booking_server_requests_total{endpoint="index",status="200"} 1.0',
    ):
        assert line in metrics
    ended(process)


def test_a_database_that_disappears_makes_the_server_unready(tmp_path: Path) -> None:
    probes = free_port()
    process = build(settings(tmp_path, PROBE_PORT=probes), FakeClock())
    (tmp_path / "bookings.db").unlink()

    status, body = answer(probes, "/readyz")
    assert status == 503
    assert f"database: The booking database {tmp_path / 'bookings.db'} is gone" in body
    ended(process)


def test_a_missing_token_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError):
        build(settings(tmp_path, KUBE_TOKEN_FILE=str(tmp_path / "nothing")), FakeClock())


def test_a_port_that_is_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(ServeError, match="Cannot listen"):
        build(settings(tmp_path, PORT=str(taken.getsockname()[1])), FakeClock())


@pytest.mark.parametrize(
    "more",
    [
        {"AUDIENCES": "[]"},
        {"AUDIENCES": '[""]'},
        {"AUDIENCES": '["a\\nb"]'},
        {"SHORTEST_BOOKING": "P15D"},
        {"COOLDOWN": "-P1D"},
        {"TRUSTED_PROXIES": "10.0.0.0/8,ingress"},
        {"OIDC_ISSUER": "http://login.example.org"},
    ],
    ids=str,
)
def test_contradicting_settings_are_reported(tmp_path: Path, more: dict[str, str]) -> None:
    with pytest.raises(SettingsError):
        build(settings(tmp_path, **more), FakeClock())


@pytest.mark.parametrize(
    ("trusted", "second"), [({}, 429), ({"TRUSTED_PROXIES": "127.0.0.1"}, 200)], ids=["nobody", "the proxy"]
)
def test_the_forwarded_client_address_counts_only_from_a_trusted_proxy(
    tmp_path: Path, trusted: dict[str, str], second: int
) -> None:
    port = free_port()
    process = build(settings(tmp_path, PORT=port, REQUEST_BURST="1", **trusted), FakeClock())
    assert answer(port, "/api/v1", {"X-Forwarded-For": "203.0.113.5"})[0] == 200
    assert answer(port, "/api/v1", {"X-Forwarded-For": "203.0.113.6"})[0] == second
    assert answer(port, "/api/v1", {"X-Forwarded-For": "203.0.113.5"})[0] == 429
    ended(process)


def test_an_unsupported_kind_of_database_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        build(settings(tmp_path, DATABASE="mysql://host/name"), FakeClock())


def test_a_database_that_cannot_be_opened_stops_the_server_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = failing(tmp_path, DATABASE=f"sqlite:///{tmp_path / 'folder'}")

    assert done.returncode == 2
    assert "folder is not a file" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_that_is_not_our_database_is_left_as_it_is(tmp_path: Path) -> None:
    stranger = tmp_path / "letter.txt"
    stranger.write_text("Dear all, " * 200)
    done = failing(tmp_path, DATABASE=f"sqlite:///{stranger}")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert stranger.read_text() == "Dear all, " * 200


def test_outside_a_pod_and_without_settings_the_server_stops_with_a_message() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "booking.server"],
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 2
    assert "KUBERNETES_SERVICE_HOST" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_policy_file_is_followed_and_a_broken_one_is_reported(tmp_path: Path) -> None:
    file, port = tmp_path / "policy.yaml", free_port()
    file.write_text("defaults: {cooldown: 3d}\n")
    process = build(settings(tmp_path, POLICY_FILE=str(file), PROBE_PORT=port), FakeClock())
    assert "gpu_booking_policy_file_invalid 0.0" in answer(port, "/metrics")[1]
    assert ended(process) == 0


def test_a_server_is_not_started_with_a_broken_policy(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("defaults: {cooldown: 3}\n")
    with pytest.raises(SettingsError, match=r"Line 1, defaults\.cooldown"):
        build(settings(tmp_path, POLICY_FILE=str(file)), FakeClock())


def test_a_server_that_has_had_a_good_policy_starts_with_a_broken_one(tmp_path: Path) -> None:
    file, port = tmp_path / "policy.yaml", free_port()
    file.write_text("defaults: {cooldown: 3d}\n")
    assert ended(build(settings(tmp_path, POLICY_FILE=str(file)), FakeClock())) == 0
    file.write_text("defaults: {cooldown: 3}\n")
    process = build(settings(tmp_path, POLICY_FILE=str(file), PROBE_PORT=port), FakeClock())
    assert "gpu_booking_policy_file_invalid 1.0" in answer(port, "/metrics")[1]
    assert ended(process) == 0


@pytest.mark.parametrize(
    "wrong", [{"COOLDOWN": "14"}, {"SHORTEST_BOOKING": "P20D"}, {"LONGEST_BOOKING": "two weeks"}]
)
def test_a_wrong_length_is_refused_when_the_server_starts(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=r"is not a length of time|shortest booking"):
        build(settings(tmp_path, **wrong), FakeClock())
