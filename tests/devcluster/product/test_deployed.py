"""What is read from the parts of a running cluster, and in which environment an extender runs."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from cluster import names
from devcluster.daemons import Daemon
from devcluster.errors import ClusterError
from devcluster.product import Parts
from tests.devcluster.product.cluster import FakeCluster

METRICS = b"""\
# HELP gpu_booking_agent_registrations_total Registrations with the kubelet, by result.
gpu_booking_agent_registrations_total{result="accepted"} 2.0
gpu_booking_agent_registrations_total{result="failed"} 1.0
gpu_booking_agent_busy_devices_available_total 0.0
gpu_booking_controller_leads 1.0
"""


class Showing(BaseHTTPRequestHandler):
    """The HTTP server of a part: it serves metrics alone."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/metrics" else 404)
        self.send_header("Content-Length", str(len(METRICS)))
        self.end_headers()
        self.wfile.write(METRICS)


class Here(FakeCluster):
    """A cluster whose parts listen on this machine."""

    address = "127.0.0.1"


class Named:
    """A daemon that has a name and nothing else."""

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with ThreadingHTTPServer((Here.address, 0), Showing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        deployed = Parts(cast("Any", Here(tmp_path)))
        deployed._ports["there"] = server.server_address[1]
        yield deployed
        server.shutdown()
        thread.join()


THERE = cast("Daemon", Named("there"))


def test_a_part_that_does_not_answer_has_no_metrics(parts: Parts) -> None:
    gone = cast("Daemon", Named("gone"))
    parts._ports["gone"] = 1
    with pytest.raises(ClusterError, match=r"gone shows no metrics \(0\)"):
        parts.metric(gone, "registrations_total")
    assert not parts.leads(gone)


def test_the_leader_reports_that_it_leads(parts: Parts) -> None:
    assert parts.leads(THERE)


@pytest.mark.parametrize("elects", [True, False])
def test_an_extender_asks_for_the_lease_where_its_scheduler_elects(tmp_path: Path, *, elects: bool) -> None:
    parts = Parts(cast("Any", FakeCluster(tmp_path)), elects=elects)
    assert parts.of_extender()[names.setting("leader_election")] == str(elects).lower()
