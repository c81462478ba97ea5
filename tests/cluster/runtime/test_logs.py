import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from cluster.runtime import logs


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


def test_the_standard_librarys_logs_have_the_same_shape(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    logging.getLogger("somebody").warning("disk %s", "full")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"], line["logger"]) == ("disk full", "warning", "somebody")


def test_values_that_json_does_not_know_are_written_as_text(stream: io.StringIO) -> None:
    logs.configure(stream=stream)
    structlog.get_logger("part").info("odd", value=ValueError("x"))
    assert json.loads(stream.getvalue())["value"] == "x"


def test_a_level_leaves_out_what_is_below(stream: io.StringIO) -> None:
    logs.configure(level="warning", stream=stream)
    structlog.get_logger("part").info("chatter")
    assert stream.getvalue() == ""


def test_people_read_columns(stream: io.StringIO) -> None:
    logs.configure(style="console", stream=stream)
    structlog.get_logger("part").info("bound", pod="team/a")
    assert "bound" in stream.getvalue()
    assert not stream.getvalue().startswith("{")
