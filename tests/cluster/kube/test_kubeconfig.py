"""A kubeconfig means to us what it means to kubectl."""

import base64
import json
import sys
from pathlib import Path

import pytest
import yaml

from cluster.kube import kubeconfig
from cluster.kube.connection import BadConnectionError

SERVER = "https://192.0.2.1:6443"
SHOWN = "a-token"


def written(path: Path, *, current: str | None = "lab", namespace: str | None = None, **user: object) -> Path:
    context = {"cluster": "lab", "user": "alice"} | ({"namespace": namespace} if namespace else {})
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "contexts": [{"name": "lab", "context": context}],
        "clusters": [{"name": "lab", "cluster": {"server": SERVER, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "alice", "user": user}],
    }
    if current:
        document["current-context"] = current
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def token_of(path: Path) -> str | None:
    user = kubeconfig.choose([path]).user
    return kubeconfig.credential_of(user, {"PATH": "/usr/bin:/bin"}, interactive=False).token


def test_the_named_file_precedes_the_environment_which_precedes_the_usual_path() -> None:
    environ = {"KUBECONFIG": "/one:/two", "HOME": "/somewhere"}
    assert kubeconfig.paths(environ, Path("/named")) == [Path("/named")]
    assert kubeconfig.paths(environ) == [Path("/one"), Path("/two")]
    assert kubeconfig.paths({"HOME": "/somewhere"}) == [Path("/somewhere/.kube/config")]


def test_the_current_context_gives_server_user_and_namespace(tmp_path: Path) -> None:
    chosen = kubeconfig.choose([written(tmp_path / "config", namespace="vision", token=SHOWN)])
    assert (chosen.context, chosen.namespace, chosen.cluster.server) == ("lab", "vision", SERVER)
    assert chosen.user.token == SHOWN


def test_a_context_without_a_namespace_has_the_default_one(tmp_path: Path) -> None:
    assert kubeconfig.choose([written(tmp_path / "config")]).namespace == "default"


def test_paths_are_relative_to_the_folder_of_their_kubeconfig(tmp_path: Path) -> None:
    chosen = kubeconfig.choose([written(tmp_path / "below" / "config", tokenFile="token")])
    assert chosen.cluster.certificate_authority == str(tmp_path / "below" / "ca.crt")
    (tmp_path / "below" / "token").write_text("from-a-file\n")
    assert token_of(tmp_path / "below" / "config") == "from-a-file"


def test_the_first_file_that_sets_a_value_counts_and_missing_files_are_ignored(
    tmp_path: Path,
) -> None:
    first = written(tmp_path / "first", current=None, token=SHOWN)
    second = written(tmp_path / "second", current="lab", tokenFile="unread")
    chosen = kubeconfig.choose([tmp_path / "missing", first, second])
    assert (chosen.context, chosen.user.token) == ("lab", SHOWN)
    assert kubeconfig.contexts([tmp_path / "missing", first, second]) == ["lab"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("contexts: []", "No context is chosen"),
        ("current-context: lab", "has no context 'lab'; there are: none"),
        ("{", "is no YAML"),
        (
            "current-context: lab\ncontexts: [{name: lab, context: {cluster: lab}}]",
            "has no cluster 'lab'",
        ),
        (
            "current-context: lab\ncontexts: [{name: lab, context: {cluster: [1]}}]",
            "the context lab cannot be read",
        ),
    ],
)
def test_an_unusable_kubeconfig_is_reported_in_a_message(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(BadConnectionError, match=message):
        kubeconfig.choose([tmp_path / "config"])


def test_a_missing_context_is_reported_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError, match="no context 'production'; there are: lab"):
        kubeconfig.choose([written(tmp_path / "config")], context="production")


def test_an_exec_program_receives_the_exec_info_and_returns_the_token(tmp_path: Path) -> None:
    program = (
        "import json, os; info = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential',"
        " 'status': {'token': os.environ['WHO'] + '/' + str(info['spec']['interactive'])}}))"
    )
    words = {"command": sys.executable, "args": ["-c", program], "env": [{"name": "WHO", "value": "alice"}]}
    words["apiVersion"] = "client.authentication.k8s.io/v1"
    assert token_of(written(tmp_path / "config", exec=words)) == "alice/False"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"command": "no-such-program", "installHint": "Ask alice."}, "not installed. Ask alice."),
        ({"command": "false"}, "false, which makes the credentials of the kubeconfig, failed"),
        ({"command": "echo", "args": ["no json"]}, "echo, which makes the credentials"),
    ],
)
def test_an_exec_program_that_returns_no_token_is_reported(
    tmp_path: Path, words: dict[str, object], message: str
) -> None:
    with pytest.raises(BadConnectionError, match=message):
        token_of(written(tmp_path / "config", exec=words))


def test_inline_certificates_are_written_to_private_files_for_the_tls_library(tmp_path: Path) -> None:
    data = {key: base64.b64encode(f"{key}\n".encode()).decode() for key in ("certificate", "key")}
    config = written(
        tmp_path / "config",
        **{"client-certificate-data": data["certificate"], "client-key-data": data["key"]},
    )
    (tmp_path / "ca.crt").write_text("authority")
    chosen = kubeconfig.choose([config])
    credential = kubeconfig.credential_of(chosen.user, {}, interactive=False)
    folder = tmp_path / "private"
    folder.mkdir()
    made = kubeconfig.connection(chosen, credential, folder)
    assert (made.server, made.ca_file) == (SERVER, tmp_path / "ca.crt")
    assert made.credentials.token() is None
    assert made.client_key
    assert made.client_key.read_text() == "key\n"
    assert made.client_key.stat().st_mode & 0o077 == 0


def test_nothing_is_sent_to_a_server_that_is_not_verified(tmp_path: Path) -> None:
    config = written(tmp_path / "config", token=SHOWN)
    document = yaml.safe_load(config.read_text())
    document["clusters"][0]["cluster"] = {"server": SERVER, "insecure-skip-tls-verify": True}
    config.write_text(json.dumps(document))
    chosen = kubeconfig.choose([config])
    with pytest.raises(BadConnectionError, match="does not verify its API server"):
        kubeconfig.connection(chosen, kubeconfig.ExecCredentialStatus(token=SHOWN), tmp_path)


def test_a_relative_path_of_an_exec_program_is_relative_to_its_kubeconfig(tmp_path: Path) -> None:
    program = tmp_path / "below" / "bin" / "credentials"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho \'{"kind": "ExecCredential", "status": {"token": "made"}}\'\n')
    program.chmod(0o755)
    assert token_of(written(tmp_path / "below" / "config", exec={"command": "bin/credentials"})) == "made"


@pytest.mark.parametrize(("mode", "token"), [("Never", "False"), ("IfAvailable", "True"), ("Always", "True")])
def test_the_exec_info_contains_whether_the_program_may_prompt(tmp_path: Path, mode: str, token: str) -> None:
    program = (
        "import json, os; may = json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']['interactive'];"
        "print(json.dumps({'kind': 'ExecCredential', 'status': {'token': str(may)}}))"
    )
    words = {"command": sys.executable, "args": ["-c", program], "interactiveMode": mode}
    user = kubeconfig.choose([written(tmp_path / "config", exec=words)]).user
    assert kubeconfig.credential_of(user, {}, interactive=True).token == token


def test_an_interactive_exec_program_is_not_run_without_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError, match="this is not a terminal"):
        token_of(written(tmp_path / "config", exec={"command": "false", "interactiveMode": "Always"}))


@pytest.mark.parametrize("field", ["as", "tls-server-name", "proxy-url"])
def test_an_unsupported_field_is_refused_and_not_ignored(tmp_path: Path, field: str) -> None:
    config = written(tmp_path / "config", token=SHOWN)
    document = yaml.safe_load(config.read_text())
    part = document["users"][0]["user"] if field == "as" else document["clusters"][0]["cluster"]
    part[field] = "bob"
    config.write_text(yaml.safe_dump(document))
    chosen = kubeconfig.choose([config])
    with pytest.raises(BadConnectionError, match=f"says {field}, which is not understood"):
        kubeconfig.connection(chosen, kubeconfig.ExecCredentialStatus(token=SHOWN), tmp_path)


def test_without_any_kubeconfig_the_searched_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError, match=r"There is no kubeconfig: .*missing says nothing"):
        kubeconfig.choose([tmp_path / "missing"])
