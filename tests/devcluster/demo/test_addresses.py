"""What ``make run`` prints at its end: addresses of a cluster that is still there, and of no other."""

import io
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from devcluster.demo import __main__ as command
from devcluster.demo.reporter import Reporter


class NoCluster:
    """Starts nothing."""

    kubeconfig = Path("/nowhere/kubeconfig")
    name = "default"

    @classmethod
    @contextmanager
    def start(cls, *_args: Any, **_more: Any) -> Iterator["NoCluster"]:
        """One that is there until the block ends."""
        yield cls()


class NoParts:
    booking_url = "http://198.18.1.140"

    def __init__(self, _cluster: NoCluster) -> None:
        pass


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Nothing starts; this is what is printed. The command sets up the logs of its process, which is ours."""
    before = structlog.get_config()
    output = io.StringIO()
    monkeypatch.setattr(command, "Reporter", lambda: Reporter(output))
    monkeypatch.setattr(command, "Cluster", NoCluster)
    monkeypatch.setattr(command, "Parts", NoParts)
    monkeypatch.setattr(command, "play", lambda *_args, **_more: None)
    monkeypatch.setattr(signal, "signal", lambda *_args: None)
    monkeypatch.setattr(command, "_stay", lambda *_args: None)
    yield output
    structlog.configure(**before)


@pytest.mark.parametrize("once", [True, False])
def test_the_addresses_are_printed_only_while_the_cluster_stays(printed: io.StringIO, *, once: bool) -> None:
    words = ["--processes", *(["--once"] if once else [])]
    command.main.main(words, standalone_mode=False)
    output = printed.getvalue()
    assert (NoParts.booking_url in output, "export KUBECONFIG" in output) == (not once, not once)
    assert "The cluster is gone." in output
