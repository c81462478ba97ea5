"""The command line as users run it: against a booking server that really answers, over HTTP."""

import io
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from booking.cli import server_connection
from booking.cli.__main__ import gpu
from cluster.process.probes import Server, serve
from tests.booking.server.web.served import Served


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that asks the API server silences the logs of its process, which is the tests' here."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.fixture(autouse=True)
def _no_login_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class Screen(io.StringIO):
    """The error stream of a terminal, which notes when something is shown."""

    def __init__(self) -> None:
        super().__init__()
        self.spoke = threading.Event()

    def isatty(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Show something."""
        written = super().write(text)
        self.spoke.set()
        return written


class Terminal:
    """The terminal of alice or another user."""

    def __init__(self, served: Served, url: str) -> None:
        self.served = served
        self.url = url

    def run(self, *words: str, user: str = "alice", **environ: str | None) -> Result:
        """Run one command, which may fail."""
        given = {
            server_connection.URL: self.url,
            server_connection.TOKEN: f"{user}-token",
            "KUBECONFIG": "/nowhere",
            **environ,
        }
        return CliRunner().invoke(gpu, words, env=given, obj=self.served.clock, catch_exceptions=False)

    def says(self, *words: str, user: str = "alice") -> str:
        """The output of a command that succeeds."""
        done = self.run(*words, user=user)
        assert done.exit_code == 0, done.output
        return done.stdout

    def fails(self, *words: str, user: str = "alice", status: int = 1) -> str:
        """The error output of a command that fails."""
        done = self.run(*words, user=user)
        assert done.exit_code == status, done.output
        assert "Traceback" not in done.output
        assert not done.stdout
        return done.stderr


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def listening(served: Served) -> Iterator[Server]:
    """Its log is not the terminal's, though both are of this process."""
    with capture_logs():
        server = serve(served.client.application, "127.0.0.1", 0)
        yield server
        server.close()


@pytest.fixture
def terminal(served: Served, listening: Server) -> Terminal:
    return Terminal(served, f"http://127.0.0.1:{listening.port}")
