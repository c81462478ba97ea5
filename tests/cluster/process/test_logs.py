import errno
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import peewee
import pytest
import structlog

from cluster.process import logs
from tests.fakes.loglines import troubles_in


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_a_line_is_one_json_object(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    structlog.get_logger("part").info("bound", pod="team/a", node="n0")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("bound", "info", "part")
    assert (line["pod"], line["node"]) == ("team/a", "n0")
    assert line["time"].endswith("Z")


def test_an_exception_stays_on_its_line(stream: io.StringIO, tmp_path: Path) -> None:
    logs.configure(stream=stream)
    try:
        (tmp_path / "missing").read_text()
    except OSError:
        structlog.get_logger("part").exception("writing failed")
    assert stream.getvalue().count("\n") == 1
    assert "FileNotFoundError: [Errno 2]" in json.loads(stream.getvalue())["exception"]


def test_logs_of_the_standard_library_have_the_same_shape(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logging.getLogger("somebody").warning("disk %s", "full")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("disk full", "warning", "somebody")


def test_values_that_json_does_not_know_are_written_as_text(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    structlog.get_logger("part").info("odd", value=ValueError("x"))
    assert json.loads(stream.getvalue())["value"] == "x"


@pytest.mark.parametrize("odd", ["half a character: \ud800", {("a", "tuple"): 1}])
def test_values_that_json_cannot_express_are_written_as_in_python(stream: io.StringIO, odd: object) -> None:
    logs.configure(stream=stream)
    structlog.get_logger("part").info("odd", value=odd)
    assert "odd" in json.loads(stream.getvalue())["event"]


class Full(io.StringIO):
    """A stream on a full disk."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_or_closed_stream_does_not_stop_the_caller() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, Full()):
        logs.configure(stream=stream)
        structlog.get_logger("part").info("bound")


def test_failures_are_logged_as_errors_at_every_level(stream: io.StringIO, tmp_path: Path) -> None:
    logs.configure(level="error", stream=stream)
    log = structlog.get_logger("part")
    log.warning("less")
    try:
        (tmp_path / "missing").read_text()
    except OSError:
        log.exception("failed")
    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["error"]


def test_lines_below_the_level_are_left_out(stream: io.StringIO) -> None:
    logs.configure(level="warning", stream=stream)
    structlog.get_logger("part").info("chatter")
    assert stream.getvalue() == ""


def test_the_format_for_people_has_columns(stream: io.StringIO) -> None:
    logs.configure(style="console", stream=stream)
    structlog.get_logger("part").info("bound", pod="team/a")
    assert "bound" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_values_written_to_a_database_are_not_written_to_the_log(stream: io.StringIO) -> None:
    logs.configure(level="debug", stream=stream)
    database = peewee.SqliteDatabase(":memory:")
    database.execute_sql("SELECT ?", ["alice@example.org"])
    database.close()
    structlog.get_logger("part").debug("done")
    assert "done" in stream.getvalue()
    assert "alice@example.org" not in stream.getvalue()


# --- what no line may hold ---------------------------------------------------------------------------
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJl"
KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2\n-----END EC PRIVATE KEY-----"


def failing(text: str) -> None:
    secret = text
    raise ValueError(secret)


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Unauthorized: {JWT}", JWT),
        ("no such user: alice.a+b@mail.example.org", "example.org"),
        (KEY, "MHcCAQEE"),
    ],
)
def test_no_line_holds_a_secret_or_an_address_whichever_logger_writes_it(
    stream: io.StringIO, text: str, left: str, style: logs.Style
) -> None:
    logs.configure(stream=stream, style=style)
    try:
        failing(text)
    except ValueError as error:
        structlog.get_logger("part").exception("refused", error=str(error), deep={"more": [text]})
        logging.getLogger("somebody").exception("%s", text)
    assert left not in stream.getvalue()
    assert "refused" in stream.getvalue()
    if style == "json":
        assert list(troubles_in(stream.getvalue())) == []


@pytest.mark.parametrize(
    "text",
    ["team/alice-0", "a100@node-1", "at 10:00", "image@sha256:0123", "postgresql://booking@db:5432/gpus"],
)
def test_text_without_a_secret_stays_as_it_is(stream: io.StringIO, text: str) -> None:
    logs.configure(stream=stream)
    structlog.get_logger("part").info("logged", what=text)
    assert json.loads(stream.getvalue())["what"] == text


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        '["event"]',
        '{"event": "no time", "level": "info", "logger": "x"}',
        f'{{"event": "{JWT}", "level": "info", "logger": "x", "time": "t"}}',
        '{"event": "Authorization: Bearer 0123456789", "level": "info", "logger": "x", "time": "t"}',
        '{"event": "a", "password": "swordfish", "level": "info", "logger": "x", "time": "t"}',
        '{"event": "a@example.org", "level": "info", "logger": "x", "time": "t"}',
        '{"event": "-----BEGIN PRIVATE KEY-----", "level": "info", "logger": "x", "time": "t"}',
        '{"event": "known-secret", "level": "info", "logger": "x", "time": "t"}',
    ],
)
def test_a_forbidden_line_is_found(line: str) -> None:
    good = '{"event": "bound", "level": "info", "logger": "x", "time": "t", "pod": "team/a"}'
    found = list(troubles_in(f"{good}\n{line}\n", known=["known-secret"]))
    assert found
    assert all(line in each for each in found)
