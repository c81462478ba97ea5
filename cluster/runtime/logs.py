"""Logs: one line per thing that happened, JSON for machines or coloured columns for people.

Libraries that log by the standard library (urllib3, waitress) end in the same stream and shape.
"""

import logging
import sys
from typing import Any, Final, Literal, TextIO

import msgspec
import stamina.instrumentation
import structlog

Style = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_QUIET_LIBRARIES: Final = ("urllib3", "waitress.queue")
"""What they say below a warning is said better by us."""


def configure(*, level: Level = "info", style: Style = "json", stream: TextIO | None = None) -> None:
    """Set up the process's logs; call it once, first of all."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(style)],
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for library in _QUIET_LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
    # Without this stamina would also count into prometheus_client's global registry, which nobody serves.
    stamina.instrumentation.set_on_retry_hooks([stamina.instrumentation.StructlogOnRetryHook])


def _rendering(style: Style) -> list[Any]:
    if style == "console":
        return [structlog.dev.ConsoleRenderer()]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]


def _json(event: Any, **_: Any) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()
