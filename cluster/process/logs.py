"""Logs: one line per thing that happened, JSON for machines or coloured columns for people.

Libraries that log by the standard library (urllib3, waitress) end in the same stream and shape. Whatever
has the form of an e-mail address, a token or a private key is left out of every line: an API server's or
a database's own words, which we pass on, may hold them.
"""

import logging
import re
import sys
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Any, Final, Literal, Protocol

import msgspec
import structlog

Processor = Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]
"""Of structlog: ``(logger, method, line)`` -> the line."""


class Stream(Protocol):
    """Where lines go: a file, or what is like one."""

    def write(self, text: str, /) -> object:
        """Append text, with its line end; may be buffered."""
        ...

    def flush(self) -> object:
        """Let nothing of it wait."""
        ...


Style = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_QUIET_LIBRARIES: Final = ("peewee", "urllib3", "waitress.queue")
"""Their lines below a warning are logged better by us, or not at all: peewee logs every statement with its
values, people's addresses among them."""

_SECRETS: Final = (
    (
        "PRIVATE KEY",
        re.compile(
            r'-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|(?=")|$)', re.DOTALL
        ),
        "(a private key)",
    ),
    ("eyJ", re.compile(r"\beyJ[\w-]{6,}\.[\w-]+(\.[\w-]*)?"), "(a token)"),
    ("@", re.compile(r"[\w.%+-]+@[\w-]+(\.[\w-]+)+"), "(an address)"),
)
"""What a line without it cannot hold; its pattern; its replacement."""


def without_secrets(line: str) -> str:
    """A line of the log without addresses of people, tokens and private keys."""
    for hint, pattern, instead in _SECRETS:
        if hint in line:
            line = pattern.sub(instead, line)
    return line


class _Ours:
    """A logger of ours: a line that is rendered goes to the stream as it is.

    By a LogRecord, as libraries' lines come, it would be rendered twice: 0.09 ms a line, of which the
    extender writes three for each pod.
    """

    def __init__(self, name: str, handler: "logging.StreamHandler[Stream]") -> None:
        self.name = name
        self._handler = handler

    def info(self, line: str) -> None:
        """Write a line; a failure to write never stops the caller."""
        self._handler.acquire()
        try:
            with suppress(OSError, ValueError):
                self._handler.stream.write(f"{line}\n")
                self._handler.flush()
        finally:
            self._handler.release()

    debug = warning = error = critical = exception = info


def silence() -> None:
    """Write no lines of ours: for programs whose output is their result; call it first of all."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def configure(
    *,
    level: Level = "info",
    style: Style = "json",
    stream: Stream | None = None,
    keep: Processor | None = None,
) -> None:
    """Set up the process's logs; call it once, first of all.

    Args:
        level: of the least important lines that are written.
        style: of the lines.
        stream: where they go; by default to standard error.
        keep: sees every line of ours first, also those that the level leaves out.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    rendered = [*_rendering(style), _cleaned]
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendered],
    )
    handler: logging.StreamHandler[Stream] = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    structlog.configure(
        processors=[
            *([keep] if keep else []),
            _at_least(level),
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *rendered,
        ],
        logger_factory=lambda name="": _Ours(name, handler),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for library in _QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)


def _at_least(level: Level) -> Processor:
    order = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
    order["exception"] = order["error"]
    least = order[level]

    def processor(_logger: object, method: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        if order[method] < least:
            raise structlog.DropEvent
        return line

    return processor


def _rendering(style: Style) -> list[Any]:
    if style == "console":
        # Where rich is installed, structlog would show what is in every variable of a traceback.
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _json(event: Any, **_: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):
        # For example half a character of a file's name: a log line must never make its caller fail.
        return msgspec.json.encode({"event": ascii(event)}).decode()


def _cleaned(_logger: object, _method: str, line: Any) -> str:
    return without_secrets(line)
