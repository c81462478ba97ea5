"""Which servers the command line uses, and as which user, without a kubeconfig."""

import base64
import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from booking.cli.connection_settings import URL, ConnectionOptions
from booking.cli.errors import CommandError
from booking.cli.server_connection import ServerConnection
from cluster import names
from cluster.fake.clock import FakeClock
from tests.booking.cli.conftest import Screen


def shown(audience: str) -> str:
    """A ServiceAccount's token, as far as it is read here."""
    claims = {"sub": "system:serviceaccount:vision:notebook", "aud": [audience]}
    return f"x.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.x"


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """What the kubelet puts into every pod."""
    for name, text in (("token", shown(names.AUDIENCE)), ("ca.crt", "authority"), ("namespace", "vision\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


def reached(mounted: Path, **environ: str) -> ServerConnection:
    environ = {"HOME": "/nowhere", **environ}
    return ServerConnection(
        ConnectionOptions(url="http://127.0.0.1:1", mounted=mounted), environ, FakeClock()
    )


def test_in_a_pod_without_a_kubeconfig_the_pods_account_and_namespace_are_used(mounted: Path) -> None:
    inside = reached(mounted, KUBERNETES_SERVICE_HOST="192.0.2.1")
    assert inside.namespace == "vision"
    assert inside.api.url == "http://127.0.0.1:1"


def test_the_named_file_precedes_the_environment_which_precedes_the_usual_path() -> None:
    environ = {"KUBECONFIG": "/one:/two", "HOME": "/somewhere"}
    assert ConnectionOptions(kubeconfig=Path("/named")).kubeconfig_files(environ) == [Path("/named")]
    assert ConnectionOptions().kubeconfig_files(environ) == [Path("/one"), Path("/two")]
    usual = [Path("/somewhere/.kube/config")]
    assert ConnectionOptions().kubeconfig_files({"HOME": "/somewhere"}) == usual


@pytest.mark.parametrize(
    ("user", "cluster", "message"),
    [
        ("token: x, as: bob", "", "The context lab says as, which is not understood here"),
        ("token: x", ", insecure-skip-tls-verify: true", "does not verify its API server"),
    ],
)
def test_nothing_is_asked_of_a_server_that_is_not_verified_or_as_somebody_else(
    tmp_path: Path, user: str, cluster: str, message: str
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: lab\n"
        "contexts: [{name: lab, context: {cluster: lab, user: alice}}]\n"
        f"clusters: [{{name: lab, cluster: {{server: 'https://127.0.0.1:1'{cluster}}}}}]\n"
        f"users: [{{name: alice, user: {{{user}}}}}]\n"
    )
    connection = ServerConnection(ConnectionOptions(kubeconfig=config), {}, FakeClock())
    with pytest.raises(CommandError, match=message):
        _ = connection.api
    account = shown("kubernetes")
    config.write_text(config.read_text().replace("token: x", f"token: {account}"))
    connection = ServerConnection(
        ConnectionOptions(url="http://127.0.0.1:1", kubeconfig=config), {}, FakeClock()
    )
    with pytest.raises(CommandError):
        _ = connection.api


def test_outside_a_pod_a_missing_kubeconfig_is_reported(mounted: Path) -> None:
    with pytest.raises(CommandError, match=r"There is no kubeconfig: /nowhere/\.kube/config says nothing"):
        _ = reached(mounted).namespace


@pytest.mark.parametrize("credential", ["token: x", "exec: {command: /nowhere/sign-in}"])
def test_a_context_that_acts_as_another_user_is_refused_before_its_own_users_token_is_made(
    tmp_path: Path, credential: str
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "current-context: lab\n"
        "contexts: [{name: lab, context: {cluster: lab, user: alice}}]\n"
        "clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        f"users: [{{name: alice, user: {{{credential}, as: bob}}}}]\n"
    )
    connection = ServerConnection(
        ConnectionOptions(url="http://127.0.0.1:1", kubeconfig=config), {}, FakeClock()
    )
    with pytest.raises(CommandError, match=r"The context lab acts as 'bob' \(as\), and the booking server"):
        _ = connection.api


def test_an_unreachable_api_server_is_one_message_for_people_and_nothing_for_programs(
    tmp_path: Path,
) -> None:
    """Reading is tried again, and the library that does so logs it: not where programs read the answer."""
    config = tmp_path / "config"
    config.write_text("contexts: [{name: lab, context: {cluster: lab, user: alice}}]\ncurrent-context: lab\n")
    cluster = "clusters: [{name: lab, cluster: {server: 'https://127.0.0.1:1'}}]\n"
    config.write_text(f"{config.read_text()}{cluster}users: [{{name: alice, user: {{token: x}}}}]\n")
    done = subprocess.run(
        [Path(sys.executable).with_name("gpu-booking"), "bookings", "-o", "json"],
        env={"PATH": "/usr/bin:/bin", "KUBECONFIG": str(config)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "Error: The cluster could not be asked where its booking server is: the API server at"
        " https://127.0.0.1:1 does not answer: Failed to establish a new connection: [Errno 111] Connection"
        " refused. Is context lab the right one, and is its cluster running? Say where the booking server is"
        f" with --url or {URL}.\n"
    )


def test_without_a_kubeconfig_the_error_suggests_the_namespace_option(mounted: Path) -> None:
    with pytest.raises(CommandError, match=r"Or name the namespace with --namespace\.$"):
        _ = reached(mounted).namespace


def test_a_kubeconfig_takes_precedence_over_the_pod(mounted: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: lab, context: {namespace: genomics}}]\ncurrent-context: lab\n")
    config.write_text(config.read_text() + "clusters: [{name: '', cluster: {server: 'https://192.0.2.1'}}]\n")
    inside = reached(mounted, KUBERNETES_SERVICE_HOST="192.0.2.1", KUBECONFIG=str(config))
    assert inside.namespace == "genomics"


class Keyboard(io.StringIO):
    """An interactive standard input."""

    def isatty(self) -> bool:
        """Always."""
        return True


@pytest.mark.parametrize(
    ("stdin", "mode", "shown"),
    [
        (io.StringIO(), "IfAvailable", "\r{} |"),
        (Keyboard(), "Never", "\r{} |"),
        # Its prompt must not be erased.
        (Keyboard(), "IfAvailable", "\n{}\n"),
    ],
)
def test_a_slow_credential_plugin_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stdin: io.StringIO, mode: str, shown: str
) -> None:
    seen, config, screen = tmp_path / "seen", tmp_path / "config", Screen()
    made = json.dumps({"kind": "ExecCredential", "status": {"token": "made"}})
    program = {
        "command": "sh",
        "args": ["-c", f"until [ -e '{seen}' ]; do sleep 0.01; done; echo '{made}'"],
        "interactiveMode": mode,
    }
    user = [{"name": "alice", "user": {"exec": program}}]
    context = [{"name": "lab", "context": {"user": "alice", "cluster": "lab"}}]
    cluster = [{"name": "lab", "cluster": {"server": "https://192.0.2.1"}}]
    config.write_text(
        json.dumps({"current-context": "lab", "users": user, "contexts": context, "clusters": cluster})
    )

    def seen_once_it_is_shown() -> None:
        screen.spoke.wait(60)
        seen.touch()

    watcher = threading.Thread(target=seen_once_it_is_shown)
    watcher.start()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdin", stdin)
    options = ConnectionOptions(url="http://127.0.0.1:1", kubeconfig=config)
    assert ServerConnection(options, {"PATH": "/usr/bin:/bin"}, FakeClock()).api.url == "http://127.0.0.1:1"
    watcher.join()
    assert shown.format("waiting for sh, which makes the credentials of the kubeconfig") in screen.getvalue()
