"""Mode ``existing`` over real TLS: a client without the right certificate gets nothing."""

import socket
import ssl
import threading
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path

import pytest

from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from cluster.process.settings import SettingsError
from extender.__main__ import build
from tests.extender.settings import free_port, settings
from tests.fakes.certificates import Signed, authority, signed

SCHEDULER = "system:kube-scheduler"
NOTHING = (ssl.SSLError, ConnectionError)
"""The connection is ended before anything is answered: as a rule without a reason."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ours(folder: Path) -> Signed:
    return authority(folder, "ours")


@pytest.fixture(scope="module")
def port(folder: Path, ours: Signed) -> Iterator[int]:
    """An extender of the mode; there is no API server, so that nothing is decided."""
    shown, found = signed(ours, folder, "extender", use="serverAuth"), free_port()
    process = build(
        settings(
            folder,
            MODE="existing",
            PORT=str(found),
            TLS_CERTIFICATE_FILE=str(shown.certificate),
            TLS_KEY_FILE=str(shown.key),
            TLS_CLIENT_CA_FILE=str(ours.certificate),
        ),
        SystemClock(),
    )
    thread = threading.Thread(target=process.run)
    thread.start()
    eventually(lambda: _listens(found), deadline=60)
    yield found
    process.end("the tests are over")
    thread.join()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except OSError:
        return False
    return True


def post(port: int, ours: Signed, client: Signed | None) -> tuple[int, bytes]:
    """The answer to a client; an OSError where it is refused."""
    context = ssl.create_default_context(cafile=str(ours.certificate))
    if client:
        context.load_cert_chain(client.certificate, client.key)
    connection = HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    try:
        connection.request("POST", "/filter", body=b'{"Pod": {}, "NodeNames": []}')
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_scheduler_with_the_right_certificate_is_answered(port: int, ours: Signed, folder: Path) -> None:
    status, message = post(port, ours, signed(ours, folder, SCHEDULER, use="clientAuth"))
    assert status == 200
    assert b'"Error":"The pods of the cluster have not been read yet.' in message


def test_a_client_without_a_certificate_gets_nothing(port: int, ours: Signed) -> None:
    with pytest.raises(NOTHING):
        post(port, ours, None)


def test_a_certificate_for_another_name_is_refused(port: int, ours: Signed, folder: Path) -> None:
    with pytest.raises(NOTHING):
        post(port, ours, signed(ours, folder, "system:node:node-a", use="clientAuth"))


@pytest.mark.parametrize("missing", ["TLS_CERTIFICATE_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE"])
def test_a_missing_setting_of_a_file_is_reported(folder: Path, ours: Signed, missing: str) -> None:
    files = {
        "TLS_CERTIFICATE_FILE": str(ours.certificate),
        "TLS_KEY_FILE": str(ours.key),
        "TLS_CLIENT_CA_FILE": str(ours.certificate),
    }
    del files[missing]
    with pytest.raises(SettingsError, match=f"GPU_BOOKING_{missing} must name a file"):
        build(settings(folder, MODE="existing", **files), SystemClock())


def test_an_unreadable_authority_is_reported(folder: Path, ours: Signed) -> None:
    with pytest.raises(SettingsError, match="GPU_BOOKING_TLS_CLIENT_CA_FILE"):
        build(
            settings(
                folder,
                MODE="existing",
                TLS_CERTIFICATE_FILE=str(ours.certificate),
                TLS_KEY_FILE=str(ours.key),
                TLS_CLIENT_CA_FILE=str(folder / "nothing"),
            ),
            SystemClock(),
        )
