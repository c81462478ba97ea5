"""Access by the official client: what it reads, renews and sends, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes.client.configuration import Configuration
from kubernetes.config.config_exception import ConfigException

from cluster.fake.clock import FakeClock
from cluster.kube.client import KubeClient
from cluster.kube.connection import BadConnectionError
from cluster.kube.errors import Unauthorized
from cluster.kube.official_client import KEPT_SECONDS, OfficialAccess, configured
from cluster.kube.resources import PODS
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server

POD_ENVIRONMENT = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
POD = b'{"metadata": {"name": "a", "namespace": "team", "uid": "u1", "resourceVersion": "7"}}'


class Settings:
    """None of them is set, unless a test sets it."""

    kube_server: str | None = None
    kube_ca_file: Path | None = None
    kube_token_file: Path | None = None


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_text("certificate")
    (tmp_path / "token").write_text("first\n")
    return tmp_path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


def access(mounted: Path, server: str | None = None) -> OfficialAccess:
    settings = Settings()
    settings.kube_server = server
    return configured(settings, FakeClock(), POD_ENVIRONMENT, mounted=mounted)


def test_a_pod_reaches_its_api_server_with_its_token(mounted: Path) -> None:
    found = access(mounted)
    assert (found.server, found.token()) == ("https://[fd00::1]:6443", "first")


@pytest.mark.parametrize("file", ["ca.crt", "token"])
def test_a_missing_file_is_named(mounted: Path, file: str) -> None:
    (mounted / file).unlink()
    with pytest.raises(BadConnectionError, match=f"{mounted / file}"):
        access(mounted)


def test_a_token_that_the_server_refuses_is_read_again_and_the_request_repeated(
    mounted: Path, server: ScriptedServer
) -> None:
    kube = KubeClient(access(mounted, server.url), FakeClock(), user_agent="tester/1")
    server.answers(Answer(401), Answer(body=POD), Answer(401), Answer(401))
    (mounted / "token").write_text("second")

    assert kube.get(PODS, "a", namespace="team").metadata.uid == "u1"
    (mounted / "token").unlink()
    with pytest.raises(Unauthorized):
        kube.get(PODS, "a", namespace="team")

    sent = [each.headers["Authorization"] for each in server.received]
    assert sent == ["Bearer first", "Bearer second", "Bearer second", "Bearer second"]


def test_credentials_that_cannot_be_renewed_stay_as_they_were() -> None:
    def load(configuration: object) -> None:
        def renew(_: object) -> None:
            raise ConfigException("Token file exists but empty.")

        configuration.host, configuration.api_key = "https://10.0.0.1", {"BearerToken": "Bearer old"}  # type: ignore[attr-defined]
        configuration.refresh_api_key_hook = renew  # type: ignore[attr-defined]

    assert OfficialAccess(load).token() == "old"


def test_a_proxy_of_the_environment_is_used_except_for_what_bypasses_it(
    mounted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example.org:3128")
    monkeypatch.setenv("no_proxy", "10.96.0.0/12")
    assert access(mounted, "https://192.0.2.1").pools(4, ()).proxy.host == "proxy.example.org"
    assert access(mounted, "https://10.96.0.1").pools(4, ()).proxy is None


def test_a_token_is_kept_for_some_seconds_but_not_after_it_was_refused() -> None:
    given, clock = iter(("first", "second", "third")), FakeClock()

    def renew(configuration: Configuration) -> None:
        configuration.api_key = {"BearerToken": f"Bearer {next(given)}"}

    def load(configuration: Configuration) -> None:
        configuration.host, configuration.refresh_api_key_hook = "https://10.0.0.1", renew

    access = OfficialAccess(load, clock)
    assert [access.token(), access.token()] == ["first", "first"]
    clock.advance(KEPT_SECONDS)
    assert access.token() == "second"
    access.invalidate()
    assert access.token() == "third"
