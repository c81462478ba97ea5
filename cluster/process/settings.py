"""Settings of a process: a struct with defaults, filled from the environment.

A field ``probe_port`` is the variable ``GPU_BOOKING_PROBE_PORT``. All problems are reported at once, each in
a message with the variable's name.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import structlog

from cluster import names

log = structlog.get_logger(__name__)

_SERVICE_LINKS: Final = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_TCP", "_UDP", "_ADDR", "_PROTO")
"""Endings of the variables that the kubelet sets for every Service of the namespace."""

_LISTS: Final = (tuple, list, set, frozenset)

S = TypeVar("S", bound=msgspec.Struct)


class SettingsError(ValueError):
    """Settings that cannot be used; the text has one message per line."""


def load(into: type[S], environ: Mapping[str, str]) -> S:
    """Read the settings.

    Args:
        into: a struct; its fields are plain values, paths, or lists of those
            (comma-separated, or JSON). Constraints are written as ``Annotated[int, msgspec.Meta(le=65535)]``.
        environ: variables. An empty one counts as not set; unknown ones with our prefix are logged.

    Raises:
        SettingsError: a value is missing, or not of the field's type or range.
    """
    fields = msgspec.structs.fields(into)
    environ = {name: text for name, text in environ.items() if text}
    variables = {field.name: names.setting(field.name) for field in fields}
    _warn_of_unknown(environ, set(variables.values()))
    problems: list[str] = []
    values: dict[str, Any] = {}
    for field in fields:
        variable = variables[field.name]
        text = environ.get(variable)
        try:
            if text is not None:
                values[field.name] = _from_text(text, field.type)
            elif field.required:
                problems.append(f"The setting {field.name!r} is missing: set {variable}.")
        except msgspec.MsgspecError as error:
            problems.append(f"The setting {variable} is {text!r}: {error}.{_allowed(field.type)}")
    if problems:
        raise SettingsError("\n".join(problems))
    return _build(into, values)


def _build(into: type[S], values: dict[str, Any]) -> S:
    try:
        return into(**values)
    except ValueError as error:
        # A struct's own __post_init__ checks whether its values fit together.
        raise SettingsError(str(error)) from error


def _warn_of_unknown(environ: Mapping[str, str], known: set[str]) -> None:
    for variable in sorted(set(environ) - known):
        if variable.startswith(names.SETTINGS_PREFIX) and not variable.endswith(_SERVICE_LINKS):
            log.warning(
                "the environment variable is not a setting of this program: ignored", variable=variable
            )


def _allowed(wanted: Any) -> str:
    """The range of a field as a sentence, if it is short; else the empty text."""
    if wanted is bool:
        return " Allowed: true, false."
    if get_origin(wanted) is Literal or (isinstance(wanted, type) and issubclass(wanted, Enum)):
        words = get_args(wanted) or tuple(one.value for one in wanted)
        return f" Allowed: {', '.join(map(str, words))}."
    bounds = [bound for bound in getattr(wanted, "__metadata__", ()) if isinstance(bound, msgspec.Meta)]
    if bounds and bounds[0].ge is not None and bounds[0].le is not None:
        return f" Allowed: {bounds[0].ge:g} to {bounds[0].le:g}."
    return ""


def _from_text(text: str, wanted: Any) -> Any:
    """A variable's text as the field's type: lists are comma-separated or JSON, objects are JSON."""
    origin = _kind(wanted)
    if origin in _LISTS and text.startswith("["):
        return msgspec.json.decode(text, type=wanted, dec_hook=_path)
    if origin in _LISTS:
        return _convert([part.strip() for part in text.split(",") if part.strip()], wanted)
    if origin is dict or (isinstance(origin, type) and issubclass(origin, msgspec.Struct)):
        return msgspec.json.decode(text, type=wanted)
    return _convert(text, wanted)


def _kind(wanted: Any) -> Any:
    """The origin of a type: ``tuple`` for ``tuple[str, ...]``, ``tuple[str, ...] | None``, also annotated."""
    origin = get_origin(wanted)
    if origin in {Annotated, Union, UnionType}:
        return _kind(next(arm for arm in get_args(wanted) if arm is not NoneType))
    return origin or wanted


def _convert(value: Any, wanted: Any) -> Any:
    return msgspec.convert(value, wanted, strict=False, dec_hook=_path)


def _path(wanted: type[Any], value: Any) -> Any:
    if wanted is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"settings of the type {wanted!r}")
