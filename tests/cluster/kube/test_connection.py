from pathlib import Path

import pytest

from cluster.fake.clock import FakeClock
from cluster.kube.connection import BadConnectionError, Connection, TokenFile
from cluster.kube.in_cluster import in_cluster

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_text("certificate")
    (tmp_path / "token").write_text("first\n")
    return tmp_path


class TestInCluster:
    def test_a_pod_finds_its_server(self, mounted: Path) -> None:
        connection = in_cluster(FakeClock(), POD, mounted=mounted)
        assert connection.server == "https://10.96.0.1:443"
        assert connection.ca_file == mounted / "ca.crt"
        assert connection.credentials.token() == "first"

    def test_an_ipv6_address_is_bracketed(self, mounted: Path) -> None:
        connection = in_cluster(FakeClock(), {"KUBERNETES_SERVICE_HOST": "fd00::1"}, mounted=mounted)
        assert connection.server == "https://[fd00::1]:443"

    def test_settings_take_precedence_over_the_pod_s_environment(self, mounted: Path, tmp_path: Path) -> None:
        token = tmp_path / "other"
        token.write_text("mine")
        connection = in_cluster(
            FakeClock(), POD, server="https://127.0.0.1:6443", token_file=token, mounted=mounted
        )
        assert (connection.server, connection.credentials.token()) == ("https://127.0.0.1:6443", "mine")

    def test_outside_a_pod_the_missing_file_or_variable_is_named(self, mounted: Path) -> None:
        with pytest.raises(BadConnectionError, match="KUBERNETES_SERVICE_HOST is not set"):
            in_cluster(FakeClock(), {}, mounted=mounted)

    @pytest.mark.parametrize(("file", "message"), [("ca.crt", "authority file"), ("token", "token file")])
    def test_a_missing_file_is_named(self, mounted: Path, file: str, message: str) -> None:
        (mounted / file).unlink()
        with pytest.raises(BadConnectionError, match=f"{message} {mounted / file}"):
            in_cluster(FakeClock(), POD, mounted=mounted)

    def test_an_address_without_a_scheme_is_refused(self) -> None:
        with pytest.raises(BadConnectionError, match="must begin with https://"):
            Connection(server="10.96.0.1")


class TestTokenFile:
    def test_a_rotated_token_is_noticed_after_a_minute(self, mounted: Path) -> None:
        clock = FakeClock()
        token = TokenFile(mounted / "token", clock)
        (mounted / "token").write_text("second")
        clock.advance(59)
        assert token.token() == "first"
        clock.advance(1)
        assert token.token() == "second"

    def test_a_refused_token_is_read_again_at_once(self, mounted: Path) -> None:
        token = TokenFile(mounted / "token", FakeClock())
        (mounted / "token").write_text("second")
        token.invalidate()
        assert token.token() == "second"

    def test_the_old_token_is_kept_when_its_file_disappears(self, mounted: Path) -> None:
        clock = FakeClock()
        token = TokenFile(mounted / "token", clock)
        (mounted / "token").unlink()
        clock.advance(60)
        assert token.token() == "first"

    def test_an_empty_file_is_refused(self, mounted: Path) -> None:
        (mounted / "token").write_text("\n")
        with pytest.raises(BadConnectionError, match="is empty"):
            TokenFile(mounted / "token", FakeClock())
