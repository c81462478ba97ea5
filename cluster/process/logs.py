"""Logs: one line per event, JSON for machines or coloured columns for people.

Lines of libraries that use the standard library's logging (urllib3, waitress) have the same stream and form.
Anything that looks like an e-mail address, a token or a private key is removed from every line: messages of
an API server or a database, which we pass on, may contain them.
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
"""A processor of structlog: ``(logger, method, line)`` -> the line."""


class Stream(Protocol):
    """Where lines are written: a file, or an object like one."""

    def write(self, text: str, /) -> object:
        """Append text, with its line end; may be buffered."""
        ...

    def flush(self) -> object:
        """Write out what is buffered."""
        ...


Style = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_QUIET_LIBRARIES: Final = ("peewee", "urllib3", "waitress.queue")
"""Libraries of which only warnings and errors are logged: we log the rest better, or not at all. peewee, for
example, logs every statement with its values, including people's addresses."""

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
"""(text that every secret of this kind contains, its pattern, its replacement)."""


def without_secrets(line: str) -> str:
    """A line of the log without addresses of people, tokens and private keys."""
    for hint, pattern, instead in _SECRETS:
        if hint in line:
            line = pattern.sub(instead, line)
    return line


class _Ours:
    """A logger of ours, which writes rendered lines to the stream as they are.

    With a LogRecord, as for libraries' lines, a line would be rendered twice: that takes 0.09 ms, and the
    extender writes three lines for each pod.
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
    """Log no lines of ours: for programs whose output is their result. Call it before anything is logged."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def configure(
    *,
    level: Level = "info",
    style: Style = "json",
    stream: Stream | None = None,
    keep: Processor | None = None,
) -> None:
    """Set up the process's logs. Call it once, before anything is logged.

    Args:
        level: the least important level that is written.
        style: JSON, or columns for people.
        stream: where lines go; by default to standard error.
        keep: gets every line of ours first, even those below the level.
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
        # If rich is installed, structlog would show the value of every variable in a traceback.
        return [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _json(event: Any, **_: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):
        # For example, part of a character in a file's name. A log line must never make its caller fail.
        return msgspec.json.encode({"event": ascii(event)}).decode()


def _cleaned(_logger: object, _method: str, line: Any) -> str:
    return without_secrets(line)
