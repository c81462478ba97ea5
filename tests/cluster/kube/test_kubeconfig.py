"""A kubeconfig means to us what it means to kubectl."""

import base64
import json
import sys
from pathlib import Path

import pytest
import yaml

from cluster.kube import kubeconfig
from cluster.kube.connection import BadConnectionError
from cluster.kube.official_client import _loader, of_kubeconfig
from tests.fakes.apiserver import Answer, scripted_server

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
    (path.parent / "ca.crt").write_text("authority")
    return path


def token_of(path: Path, *, interactive: bool = False) -> str | None:
    """The token by which the API server is asked."""
    chosen = kubeconfig.choose([path])
    program, environ = chosen.user.exec, {"PATH": "/usr/bin:/bin"}
    made = (
        kubeconfig.made_by(program, chosen.folder, environ, interactive=interactive).as_user()
        if program
        else None
    )
    return of_kubeconfig(chosen.documents, chosen.context, made).token()


def test_the_current_context_gives_server_user_and_namespace(tmp_path: Path) -> None:
    chosen = kubeconfig.choose([written(tmp_path / "config", namespace="vision", token=SHOWN)])
    assert (chosen.context, chosen.namespace, chosen.cluster.server) == ("lab", "vision", SERVER)
    assert token_of(tmp_path / "config") == SHOWN


def test_a_context_without_a_namespace_has_the_default_one(tmp_path: Path) -> None:
    assert kubeconfig.choose([written(tmp_path / "config")]).namespace == "default"


def test_paths_are_relative_to_the_folder_of_their_kubeconfig(tmp_path: Path) -> None:
    below = tmp_path / "below"
    config = written(below / "config", tokenFile="token")
    (below / "token").write_text("from-a-file\n")
    assert token_of(config) == "from-a-file"
    (below / "ca.crt").unlink()
    with pytest.raises(BadConnectionError, match=rf"The context lab .* File does not exist: {below}/ca\.crt"):
        token_of(config)


def test_the_first_file_that_sets_a_value_counts_and_missing_files_are_ignored(
    tmp_path: Path,
) -> None:
    first = written(tmp_path / "first", current=None, token=SHOWN)
    second = written(tmp_path / "second", current="lab", tokenFile="unread")
    third = written(tmp_path / "third", current="other", tokenFile="unread")
    files = [tmp_path / "missing", first, second, third]
    chosen = kubeconfig.choose(files)
    assert (chosen.context, of_kubeconfig(chosen.documents, chosen.context).token()) == ("lab", SHOWN)
    assert kubeconfig.contexts(files) == ["lab"]


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


def test_what_the_cluster_s_entry_says_is_used(tmp_path: Path) -> None:
    data = {key: base64.b64encode(f"{key}\n".encode()).decode() for key in ("certificate", "key")}
    config = written(
        tmp_path / "config",
        **{"client-certificate-data": data["certificate"], "client-key-data": data["key"]},
    )
    document = yaml.safe_load(config.read_text())
    document["clusters"][0]["cluster"] |= {"tls-server-name": "lab", "proxy-url": "http://192.0.2.9:3128"}
    config.write_text(json.dumps(document))
    chosen = kubeconfig.choose([config])
    access = of_kubeconfig(chosen.documents, chosen.context)
    assert (access.server, access.token()) == (SERVER, None)
    pools = access.pools(1, ())
    assert pools.proxy.url == "http://192.0.2.9:3128"
    found = pools.connection_pool_kw
    assert (found["ca_certs"], found["server_hostname"]) == (str(tmp_path / "ca.crt"), "lab")
    key = Path(found["key_file"])
    assert (key.read_text(), key.stat().st_mode & 0o077) == ("key\n", 0)


def test_what_a_plugin_makes_may_be_a_certificate(tmp_path: Path) -> None:
    chosen = kubeconfig.choose([written(tmp_path / "config", exec={"command": "unused"})])
    made = kubeconfig.ExecCredentialStatus(client_certificate_data="certificate", client_key_data="key")
    access = of_kubeconfig(chosen.documents, chosen.context, made.as_user())
    found = access.pools(1, ()).connection_pool_kw
    assert (Path(found["cert_file"]).read_text(), Path(found["key_file"]).read_text()) == (
        "certificate",
        "key",
    )


def test_an_expired_token_of_an_oidc_provider_is_renewed_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    past = base64.urlsafe_b64encode(b'{"exp": 1000000000}').decode().rstrip("=")
    with scripted_server() as provider:
        provider.answers(
            Answer(body=json.dumps({"token_endpoint": f"{provider.url}/token"}).encode()),
            Answer(
                body=b'{"access_token": "a", "token_type": "b", "id_token": "n.e.w", "refresh_token": "2"}'
            ),
        )
        config = {
            "id-token": f"x.{past}.x",
            "refresh-token": "1",
            "client-id": "kubectl",
            "client-secret": "s",
            "idp-issuer-url": provider.url,
        }
        file = written(tmp_path / "config", **{"auth-provider": {"name": "oidc", "config": config}})
        assert token_of(file) == "n.e.w"
    kept = yaml.safe_load(file.read_text())["users"][0]["user"]["auth-provider"]["config"]
    assert kept == config | {"id-token": "n.e.w", "refresh-token": "2"}


@pytest.mark.parametrize("authority", [{}, {"idp-certificate-authority": "/theirs"}])
def test_an_oidc_provider_is_always_verified(tmp_path: Path, authority: dict[str, str]) -> None:
    """The official client would not verify one without authorities."""
    config = {"id-token": "a.b.c", **authority}
    file = written(tmp_path / "config", **{"auth-provider": {"name": "oidc", "config": config}})
    documents = kubeconfig.choose([file]).documents
    for _ in range(2):
        _loader(documents, "lab", None)
    ((_, document),) = documents
    found = document["users"][0]["user"]["auth-provider"]["config"]["idp-certificate-authority"]
    assert found == authority.get("idp-certificate-authority", found)
    assert authority or Path(found).is_file()


@pytest.mark.parametrize("user", [{"username": "alice", "password": "x"}, {}])
def test_a_password_is_no_token(tmp_path: Path, user: dict[str, str]) -> None:
    assert token_of(written(tmp_path / "config", **user)) is None


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("user", {"client-certificate-data": 7}),
        ("user", {"auth-provider": {"name": "oidc", "config": {"id-token": 7}}}),
        ("user", {"auth-provider": 7}),
        ("cluster", {"certificate-authority-data": 7}),
        ("cluster", {"proxy-url": "socks5://192.0.2.9"}),
    ],
)
def test_what_cannot_be_used_is_reported_with_the_context(
    tmp_path: Path, part: str, wrong: dict[str, object]
) -> None:
    config = written(tmp_path / "config")
    document = yaml.safe_load(config.read_text())
    document[f"{part}s"][0][part] |= wrong
    config.write_text(json.dumps(document))
    with pytest.raises(BadConnectionError, match="The context lab "):
        token_of(config)


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
    assert token_of(written(tmp_path / "config", exec=words), interactive=True) == token


def test_an_interactive_exec_program_is_not_run_without_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError, match="this is not a terminal"):
        token_of(written(tmp_path / "config", exec={"command": "false", "interactiveMode": "Always"}))


def test_without_any_kubeconfig_the_searched_paths_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadConnectionError, match=r"There is no kubeconfig: .*missing says nothing"):
        kubeconfig.choose([tmp_path / "missing"])
