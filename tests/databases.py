"""Databases for tests: a file, or a database on a PostgreSQL server of this test process.

The server is started when somebody first asks, as an unprivileged user, on a socket in a temporary folder,
without TCP; each database is new, and the server is stopped by its process id when the process ends.
"""

import atexit
import contextlib
import grp
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg import sql

from cluster.process.clock import SystemClock

KINDS: Final = ("sqlite", "postgresql")
NEEDS_A_SERVER: Final = pytest.mark.component
EACH_KIND: Final = ("sqlite", pytest.param("postgresql", marks=NEEDS_A_SERVER))
"""Of databases, for ``parametrize``."""
_USER: Final = "postgres"
_SETTINGS: Final = {
    "listen_addresses": "",
    "max_connections": "80",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "max_wal_senders": "0",
    "wal_level": "minimal",
}
_NOT_DURABLE: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Nobody pulls the plug of a test; a killed process loses nothing by it."""
_PATIENCE: Final = 60.0
_NUMBERS: Final = itertools.count(1)


class PostgresServer:
    """A server of our own."""

    def __init__(self, *, durable: bool = False) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="gpu-booking-postgres-"))
        self._settings = _SETTINGS if durable else {**_SETTINGS, **_NOT_DURABLE}
        self._account = _account()
        shutil.chown(self.folder, *self._account)
        self.folder.chmod(0o700)
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self._data), "-U", _USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C"
        )
        self.start()

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        if self._process:
            return
        settings = [word for each in self._settings.items() for word in ("-c", "=".join(each))]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", str(self._data), "-k", str(self.folder), *settings],
                **self._unprivileged,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        clock = SystemClock()
        deadline = clock.monotonic() + _PATIENCE
        while not self._answers():
            if clock.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")
            clock.wait(threading.Event(), 0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: at once, connections or not."""
        if self._process:
            self._process.send_signal(how)
            self._process.wait(_PATIENCE)
            self._process = None

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Inside all its processes are stopped: connections stay open, and nobody answers."""
        assert self._process
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        processes = [self._process.pid, *map(int, children.split())]
        for each in processes:
            os.kill(each, signal.SIGSTOP)
        try:
            yield
        finally:
            for each in processes:
                os.kill(each, signal.SIGCONT)

    def close(self) -> None:
        """End it, and leave nothing behind."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_url(self) -> str:
        """A new, empty database."""
        name = f"bookings_{next(_NUMBERS)}"
        with self._connected() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"postgresql://{_USER}@/{name}?host={self.folder}"

    def _connected(self) -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), user=_USER, dbname="postgres", autocommit=True)

    def _answers(self) -> bool:
        try:
            self._connected().close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def _unprivileged(self) -> dict[str, str]:
        user, group = self._account
        return {"user": user, "group": group, "cwd": str(self.folder)} if os.geteuid() == 0 else {}

    def _run(self, program: str, *words: str) -> None:
        subprocess.run([_program(program), *words], **self._unprivileged, check=True, capture_output=True)


@cache
def server() -> PostgresServer:
    """The one of this process."""
    made = PostgresServer()
    atexit.register(made.close)
    return made


def a_database(kind: str, folder: Path) -> str:
    """The URL of a new, empty database of this kind."""
    return f"sqlite:///{folder / 'bookings.db'}" if kind == "sqlite" else server().new_url()


def _account() -> tuple[str, str]:
    """Who runs it: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        me = pwd.getpwuid(os.geteuid())
        return me.pw_name, _group_of(me)
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_name, _group_of(nobody)


def _group_of(account: pwd.struct_passwd) -> str:
    return grp.getgrgid(account.pw_gid).gr_name


def _program(name: str) -> str:
    found = shutil.which(name) or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    if found is None:
        raise RuntimeError(f"{name} is not installed: PostgreSQL's server is needed for these tests.")
    return found
