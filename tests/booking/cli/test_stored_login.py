"""A login serves the next commands until shortly before its token ends, and nobody else can read it."""

import base64
import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from booking.cli.connection_settings import ConnectionOptions
from booking.cli.errors import CommandError
from booking.cli.server_connection import ServerConnection
from booking.cli.stored_login import MARGIN, StoredLogin
from cluster import names
from cluster.fake.clock import FakeClock
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server

LIFE = timedelta(minutes=10)
OK = Answer(body=b"{}")
REFUSED = Answer(401, body=b'{"title": "no"}')


def a_token(**content: object) -> str:
    return f"x.{base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip('=')}.x"


def an_account() -> str:
    return a_token(sub="system:serviceaccount:vision:alice", aud=["kubernetes"])


class Machine:
    """Alice's, with a cluster that makes tokens and names the booking server."""

    def __init__(self, folder: Path, api_server: ScriptedServer, booking: ScriptedServer) -> None:
        self.clock = FakeClock()
        self.api_server = api_server
        self.booking = booking
        self.environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self.config = folder / ".kube" / "config"
        self.config.parent.mkdir()
        self.folder = folder / ".local/state" / names.PROGRAM
        self.has(token=an_account())
        self.logins = 0

    def has(self, **user: object) -> None:
        """The kubeconfig has this user."""
        context = {"cluster": "lab", "user": "alice", "namespace": "vision"}
        document = {
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": context}],
            "clusters": [{"name": "lab", "cluster": {"server": self.api_server.url}}],
            "users": [{"name": "alice", "user": user}],
        }
        self.config.write_text(json.dumps(document))

    def may_log_in(self, *, is_found: bool = False) -> None:
        """The cluster answers one login; the booking server may have been found already."""
        self.logins += 1
        until = (self.clock.now() + LIFE).isoformat()
        status = {"token": f"made-{self.logins}", "expirationTimestamp": until}
        if not is_found:
            body = {"metadata": {}, "data": {"server": self.booking.url}}
            self.api_server.answers(Answer(body=json.dumps(body).encode()))
        self.api_server.answers(Answer(body=json.dumps({"status": status}).encode()))

    def asks(self, **environ: str) -> str:
        """One command that asks the server once; returns the token that it shows last."""
        connection = ServerConnection(ConnectionOptions(), self.environ | environ, self.clock)
        connection.api.get("/bookings")
        assert connection.namespace == "vision"
        return self.booking.received[-1].headers["Authorization"].removeprefix("Bearer ")

    @property
    def file(self) -> Path:
        """The only stored login."""
        (file,) = self.folder.iterdir()
        return file


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with scripted_server() as api_server, scripted_server() as booking:
        yield Machine(tmp_path, api_server, booking)


@pytest.fixture
def logged_in(machine: Machine) -> Machine:
    machine.may_log_in()
    machine.booking.answers(OK)
    assert machine.asks() == "made-1"
    return machine


def test_the_next_command_asks_nobody_but_the_booking_server_until_shortly_before_the_end(
    logged_in: Machine,
) -> None:
    requests = len(logged_in.api_server.received)
    logged_in.clock.advance((LIFE - MARGIN).total_seconds() - 1)
    logged_in.booking.answers(OK)
    assert logged_in.asks() == "made-1"
    assert len(logged_in.api_server.received) == requests

    logged_in.clock.advance(1)
    logged_in.may_log_in()
    logged_in.booking.answers(OK)
    assert logged_in.asks() == "made-2"
    assert "made-1" not in logged_in.file.read_text()


def test_only_its_owner_can_read_it(logged_in: Machine) -> None:
    assert (logged_in.folder.stat().st_mode & 0o777, logged_in.file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_refused_token_is_dropped_and_the_request_repeated_once_with_another(logged_in: Machine) -> None:
    logged_in.may_log_in(is_found=True)
    logged_in.booking.answers(REFUSED, OK)
    assert logged_in.asks() == "made-2"

    logged_in.may_log_in(is_found=True)
    logged_in.booking.answers(REFUSED, REFUSED)
    with pytest.raises(CommandError, match="It is the token of the kubeconfig's user"):
        logged_in.asks()
    assert list(logged_in.folder.iterdir()) == []


def test_a_server_that_is_not_there_any_more_is_looked_up_again(logged_in: Machine) -> None:
    logged_in.booking.answers(Answer(body=b"<html>"))
    with pytest.raises(CommandError, match="is not a booking server"):
        logged_in.asks()
    assert list(logged_in.folder.iterdir()) == []


def _another_context(machine: Machine) -> dict[str, str]:
    machine.has(token=an_account(), **{"client-key": "new"})
    return {}


@pytest.mark.parametrize("change", [_another_context, lambda _: {"AWS_PROFILE": "bob"}])
def test_who_may_be_somebody_else_logs_in_again(
    logged_in: Machine, change: Callable[[Machine], dict[str, str]]
) -> None:
    environ = change(logged_in)
    logged_in.may_log_in()
    logged_in.booking.answers(OK)
    assert logged_in.asks(**environ) == "made-2"


def _readable(machine: Machine) -> None:
    machine.file.chmod(0o644)


def _open_folder(machine: Machine) -> None:
    machine.folder.chmod(0o777)


def _symbolic_file(machine: Machine) -> None:
    file, elsewhere = machine.file, machine.folder.parent / "theirs"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def _symbolic_folder(machine: Machine) -> None:
    elsewhere = machine.folder.parent / "theirs"
    machine.folder.rename(elsewhere)
    machine.folder.symlink_to(elsewhere)


def _pipe(machine: Machine) -> None:
    file = machine.file
    file.unlink()
    os.mkfifo(file, 0o600)


def _broken(machine: Machine) -> None:
    machine.file.write_text("{")


@pytest.mark.parametrize("harm", [_readable, _open_folder, _symbolic_file, _symbolic_folder, _pipe, _broken])
def test_what_is_not_the_user_s_alone_is_not_used(
    logged_in: Machine, harm: Callable[[Machine], None]
) -> None:
    harm(logged_in)
    logged_in.may_log_in()
    logged_in.booking.answers(OK)
    assert logged_in.asks() == "made-2"


def test_what_belongs_to_another_user_is_neither_used_nor_replaced(logged_in: Machine) -> None:
    me = os.geteuid()
    mine, another = (
        StoredLogin(ConnectionOptions(), logged_in.environ, logged_in.clock, user=user)
        for user in (me, me + 1)
    )
    login = mine.read()
    assert login is not None
    assert another.read() is None
    another.write(msgspec.structs.replace(login, namespace="speech"))
    assert mine.read() == login


def test_a_link_is_replaced_and_not_followed(logged_in: Machine) -> None:
    _symbolic_file(logged_in)
    logged_in.may_log_in()
    logged_in.booking.answers(OK)
    assert logged_in.asks() == "made-2"
    assert not logged_in.file.is_symlink()
    assert "made-1" in (logged_in.folder.parent / "theirs").read_text()


def test_where_nothing_can_be_written_nothing_is_stored(machine: Machine) -> None:
    (machine.folder.parent.parent).write_text("a file where a folder would be")
    for login in ("made-1", "made-2"):
        machine.may_log_in()
        machine.booking.answers(OK)
        assert machine.asks() == login


def test_tokens_without_a_known_end_from_files_and_given_ones_are_not_stored(
    machine: Machine, tmp_path: Path
) -> None:
    ends = a_token(sub="alice", exp=(machine.clock.now() + LIFE).timestamp())
    file = tmp_path / "token"
    file.write_text(ends)
    url = {names.setting("url"): machine.booking.url}
    for user in ({"token": "opaque"}, {"tokenFile": str(file)}):
        machine.has(**user)
        machine.booking.answers(OK)
        machine.asks(**url)
    for given in ({names.setting("token"): ends}, {names.setting("token_file"): str(file)}):
        machine.booking.answers(OK)
        assert machine.asks(**url, **given) == ends
    assert not machine.folder.exists()


@pytest.mark.parametrize("opaque", [False, True])
def test_the_end_is_the_token_s_or_what_the_plugin_says(machine: Machine, *, opaque: bool) -> None:
    until = machine.clock.now() + LIFE
    token = "opaque" if opaque else a_token(sub="alice", exp=until.timestamp())
    status = {"token": token} | ({"expirationTimestamp": until.isoformat()} if opaque else {})
    made = json.dumps({"kind": "ExecCredential", "status": status})
    calls = machine.config.with_name("calls")
    machine.has(exec={"command": "sh", "args": ["-c", f"echo >> '{calls}'; echo '{made}'"]})
    for _ in range(2):
        machine.booking.answers(OK)
        assert machine.asks(**{names.setting("url"): machine.booking.url}) == token
    assert calls.read_text() == "\n"
