"""Impossible bookings and harmful input: each is refused with a message, and nothing is stored."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from booking.cli import server_connection
from tests.booking.cli.conftest import Terminal
from tests.booking.server.web.served import BOOKINGS, BURST
from tests.booking.server.web.test_harm import HARM
from tests.fakes import certificates
from tests.fakes.apiserver import Answer, scripted_server
from tests.fakes.objects import A100

FOR = ("--for", "2d")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        pytest.param(
            ("--from", "2026-03-05 10:00", "--to", "2026-03-04 10:00"),
            "not after its start",
            id="ends before it starts",
        ),
        pytest.param(("--from", "2026-02-05 10:00", *FOR), "already", id="past"),
        pytest.param(("--from", "9999-12-30", *FOR), "Nothing is booked after", id="starts in the year 9999"),
        pytest.param(("--to", "9999-12-31 23:59"), "Nothing is booked after", id="ends in the year 9999"),
        pytest.param(("--gpus", "0", *FOR), "at least 1 GPU", id="no GPU"),
        pytest.param(("--gpus", str(10**9), *FOR), "there are 8", id="a billion GPUs"),
        pytest.param(("--gpus", str(10**30), *FOR), "at most 2147483647", id="more than a number"),
        pytest.param(("--namespace", "x" * 300, *FOR), "must be a text of 1 to 200", id="300 letters"),
    ],
)
def test_a_booking_that_cannot_be_made_is_refused_with_a_message(
    terminal: Terminal, words: tuple[str, ...], says: str
) -> None:
    assert says in terminal.fails("book", A100, *words)
    assert terminal.served.stored == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("--from", "2026-03-05T10:00:00+25:00", *FOR), id="a wrong offset"),
        pytest.param(("--from", "2026-03-05 10:00 Mars/Olympus", *FOR), id="a wrong zone"),
        pytest.param(("--for", "P99999W"), id="longer than a century"),
        pytest.param(("--for", "-2d"), id="less than nothing"),
        pytest.param(("--gpus", "many", *FOR), id="no number"),
    ],
)
def test_unreadable_arguments_are_refused_before_anything_is_booked(
    terminal: Terminal, words: tuple[str, ...]
) -> None:
    assert "Error: " in terminal.fails("book", A100, *words, status=2)
    assert terminal.served.stored == 0


def test_an_unknown_model_is_refused_with_the_known_ones(terminal: Terminal) -> None:
    assert A100 in terminal.fails("book", "h200", *FOR)
    assert terminal.served.stored == 0


@pytest.mark.parametrize("text", HARM)
def test_no_argument_does_harm_or_draws_on_the_terminal(terminal: Terminal, text: str) -> None:
    commands = [
        ("book", text, *FOR),
        ("book", A100, "--namespace", text, *FOR),
        ("earliest", text, *FOR),
        ("release", text),
        ("cancel", text),
        ("extend", text, "--by", "2d"),
    ]
    for words in commands:
        stderr = terminal.fails(*words)
        assert stderr.startswith("Error: ")
        assert "\u202e" not in stderr
    for words in (("book", A100, "--for", text), ("book", A100, "--from", text, *FOR)):
        assert "\u202e" not in terminal.fails(*words, status=2)
    assert terminal.served.stored == 0


def test_too_many_requests_are_refused_with_when_to_ask_again(terminal: Terminal) -> None:
    for _ in range(BURST):
        terminal.served.ask("GET", BOOKINGS)
    stderr = terminal.fails("bookings", status=3)
    assert "too many requests of alice" in stderr
    assert "does not answer" not in stderr


def test_the_servers_message_is_shown_while_the_database_is_missing(terminal: Terminal) -> None:
    served = terminal.served
    away = served.file.with_suffix(".away")
    served.file.rename(away)
    done = terminal.run("bookings")
    assert done.exit_code == 3
    assert "database" in done.stderr
    assert "does not answer" not in done.stderr
    away.rename(served.file)
    assert terminal.says("bookings") == ""


@pytest.mark.parametrize(
    "url",
    ["gpu.example.org", "ftp://127.0.0.1", "http://", "http://exa mple", "http://[::1", "http://a:99999"],
)
def test_a_wrong_address_is_refused_with_how_to_give_one(terminal: Terminal, url: str) -> None:
    done = terminal.run("bookings", **{server_connection.URL: url})
    assert done.exit_code == 1
    assert f"'{url}' is not the address of a booking server: write it with --url" in done.stderr


@pytest.mark.parametrize("token", ["two\nlines", "two words", "tökn", "\x1b[2J"])
def test_a_wrong_token_is_refused_and_not_shown(terminal: Terminal, tmp_path: Path, token: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    given = terminal.run("bookings", **{server_connection.TOKEN: token})
    read = terminal.run("bookings", "--token-file", str(file))
    for done, where in ((given, f"in {server_connection.TOKEN}"), (read, f"in the file {file}")):
        assert done.exit_code == 1
        assert f"What is {where} is not a token. Get one: kubectl create token" in done.stderr
        assert token not in done.stderr


def test_a_file_that_cannot_be_used_is_refused_before_any_request(terminal: Terminal, tmp_path: Path) -> None:
    gone, other = tmp_path / "gone", tmp_path / "other"
    other.write_text("no certificate")
    assert f"The token file {gone} cannot be read: No such file" in terminal.fails(
        "bookings", "--token-file", str(gone)
    )
    assert f"The file {gone} cannot be read: No such file" in terminal.fails(
        "bookings", "--ca-file", str(gone)
    )
    assert f"The file {other} has no certificates" in terminal.fails("bookings", "--ca-file", str(other))


@pytest.mark.parametrize(
    "words",
    [
        ("bookings", ""),
        ("bookings", "--user", ""),
        ("book", "", *FOR),
        ("book", A100, *FOR, "--user", " "),
        ("earliest", A100, *FOR, "--user", ""),
        ("release", ""),
        ("cancel", ""),
        ("extend", "", "--by", "1d"),
        ("move", "", "--from", "fri"),
        ("resize", "", "--gpus", "1"),
        ("status", ""),
        ("status", "--model", ""),
        ("why", ""),
        ("why", "train-0", "-n", ""),
        ("book", A100, *FOR, "-n", ""),
        ("earliest", A100, *FOR, "--book", "--namespace", " "),
        ("policy", "show", "--model", ""),
        ("admin", "block", "node-a", "--to", "fri", "--reason", "x", "--model", ""),
        ("admin", "unblock", ""),
        ("admin", "exempt", "", "longest=P9D", "--to", "fri", "--reason", "x"),
        ("admin", "revoke", ""),
        ("admin", "evict", "", "--reason", "x"),
        ("admin", "cordon", "node-a", "", "--reason", "x"),
        ("admin", "audit", "--of", ""),
    ],
    ids=" ".join,
)
def test_an_empty_name_is_refused(terminal: Terminal, words: tuple[str, ...]) -> None:
    """As from an unset variable: it must mean neither oneself nor everything."""
    terminal.served.signing_in.administrators.add("alice")
    assert "it is empty." in terminal.fails(*words, status=2)
    assert terminal.served.stored == 0


@pytest.mark.parametrize("text", ["vision/", "/train", "a/b/c", "pod/a/b", "pods/"])
def test_a_wrong_pod_is_refused_with_how_to_write_one(terminal: Terminal, text: str) -> None:
    for words in (("why", text), ("admin", "evict", text, "--reason", "x")):
        assert "is not a pod: write its NAME, or NAMESPACE/NAME." in terminal.fails(*words, status=2)


def test_contradicting_namespaces_of_a_pod_are_refused(terminal: Terminal) -> None:
    stderr = terminal.fails("why", "vision/train", "-n", "genomics", status=2)
    assert "'vision/train' is in the namespace 'vision', and --namespace names another" in stderr


def test_an_unknown_model_has_no_bookings_and_is_reported(terminal: Terminal) -> None:
    stderr = terminal.fails("bookings", "--model", "h200")
    assert "No model's name contains 'h200': there are" in stderr
    assert f"No bookings of {A100}." in terminal.run("bookings", "--model", "a100").stderr
    assert terminal.says("bookings", "--model", "h200", "-o", "json") == '{\n  "bookings": []\n}\n'


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(body=b'{"hello": 1}'), "its answer lacks "),
        (Answer(body=b"<html>"), "(HTTP 200, no JSON object)"),
        (Answer(body=b"[]"), "(HTTP 200, no JSON object)"),
        (
            Answer(status=302, headers={"Location": "/login"}),
            "it redirects to '/login', perhaps to sign in",
        ),
    ],
)
@pytest.mark.parametrize(
    "words", [("bookings",), ("status",), ("why", "a/b"), ("release", "b-0")], ids=" ".join
)
def test_another_server_is_reported_with_its_address(
    terminal: Terminal, words: tuple[str, ...], answer: Answer, says: str
) -> None:
    with scripted_server() as server:
        server.answers(answer, answer)
        done = terminal.run(*words, **{server_connection.URL: server.url})
    assert (done.exit_code, done.stdout) == (3, "")
    assert f"What answers at {server.url} is not a booking server" in done.stderr
    assert says in done.stderr


def test_a_server_without_tls_is_reported(terminal: Terminal) -> None:
    with scripted_server() as server:
        url = server.url.replace("http://", "https://")
        stderr = terminal.run("bookings", **{server_connection.URL: url}).stderr
    assert stderr.endswith("It speaks no TLS: does its address begin with http://?\n")


def test_a_server_without_a_trusted_certificate_is_reported_with_how_to_trust_it(
    terminal: Terminal, tmp_path: Path
) -> None:
    own = certificates.signed(
        certificates.authority(tmp_path, "nobody"), tmp_path, "server", use="serverAuth"
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"https://127.0.0.1:{server.server_port}"
        stderr = terminal.run("bookings", **{server_connection.URL: url}).stderr
        server.shutdown()
    assert (
        f"Name the authorities that vouch for the server with --ca-file or {server_connection.CA_FILE}."
        in stderr
    )


@pytest.mark.parametrize("text", [".", "..", "..."])
def test_an_id_of_dots_does_not_lead_to_another_address(terminal: Terminal, text: str) -> None:
    """A client that sends an address with ``.`` or ``..`` in it leaves them out before."""
    terminal.served.signing_in.administrators.add("alice")
    for words in (("bookings", text), ("release", text), ("cancel", text, "--dry-run")):
        assert terminal.fails(*words) == f"Error: There is no booking '{text}'.\n"
    assert f"no maintenance block '{text}'" in terminal.fails("admin", "unblock", text)
    assert terminal.served.stored == 0
