"""Settings of a process: a struct filled from the environment, over a file, over defaults.

A field ``probe_port`` is the variable ``GPU_BOOKING_PROBE_PORT`` or the key ``probe_port`` of the file (JSON
or TOML). Everything that is wrong is told at once, each in a sentence with the variable's or key's name.
"""

import difflib
import tomllib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import msgspec
import structlog

from cluster import names

log = structlog.get_logger(__name__)

PREFIX: Final = names.SETTINGS_PREFIX

_SERVICE_LINKS: Final = ("_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_TCP", "_UDP", "_ADDR", "_PROTO")
"""Endings of the variables that the kubelet sets for every Service of the namespace."""

_LISTS: Final = (tuple, list, set, frozenset)

S = TypeVar("S", bound=msgspec.Struct)


class SettingsError(ValueError):
    """Settings that cannot be used; the text has one sentence per line."""


def load(into: type[S], environ: Mapping[str, str], file: Path | None = None, prefix: str = PREFIX) -> S:
    """The settings.

    Args:
        into: a struct; its fields are plain values, paths, or lists of those
            (comma-separated, or JSON). Constraints
            are written as ``Annotated[int, msgspec.Meta(le=65535)]``.
        environ: variables; they win over the file. An empty one counts as not set; an unknown one with our
            prefix is warned about.
        file: ends in ``.json`` or ``.toml``; unknown keys are refused. By default the one that the variable
            ``GPU_BOOKING_SETTINGS_FILE`` names, if it is set.
        prefix: of the variables.

    Raises:
        SettingsError: the file cannot be read, a value is missing or not what the field expects.
    """
    fields = msgspec.structs.fields(into)
    environ = {name: text for name, text in environ.items() if text}
    variables = {field.name: prefix + field.name.upper() for field in fields}
    naming = prefix + "SETTINGS_FILE"
    if file is None and naming in environ:
        file = Path(environ[naming])
    from_file = _read(file) if file else {}
    problems = _unknown_keys(from_file, set(variables), file)
    _warn_of_unknown(environ, {*variables.values(), naming}, prefix)
    values: dict[str, Any] = {}
    for field in fields:
        variable = variables[field.name]
        try:
            if variable in environ:
                values[field.name] = _from_text(environ[variable], field.type)
            elif field.name in from_file:
                values[field.name] = _convert(from_file[field.name], field.type, strict=True)
            elif field.required:
                problems.append(f"The setting {field.name!r} is missing: set {variable}.")
        except msgspec.MsgspecError as error:
            where = variable if variable in environ else f"{field.name!r} in {file}"
            given = environ[variable] if variable in environ else from_file[field.name]
            problems.append(f"The setting {where} is {given!r}: {error}.{_allowed(field.type)}")
    if problems:
        raise SettingsError("\n".join(problems))
    return _build(into, values)


def _build(into: type[S], values: dict[str, Any]) -> S:
    try:
        return into(**values)
    except ValueError as error:
        # A struct's own __post_init__ says what does not fit together.
        raise SettingsError(str(error)) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text(encoding="utf-8")
        read = tomllib.loads(text) if file.suffix == ".toml" else msgspec.json.decode(text)
    except OSError as error:
        raise SettingsError(f"The settings file {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        kind = "TOML" if file.suffix == ".toml" else "JSON"
        raise SettingsError(f"The settings file {file} is not {kind}: {error}.") from error
    if not isinstance(read, dict):
        raise SettingsError(f"The settings file {file} must hold an object, keys and values.")
    return read


def _unknown_keys(given: Mapping[str, Any], known: set[str], file: Path | None) -> list[str]:
    return [
        f"The settings file {file} has the unknown key {key!r}{_meant(key, known)}."
        for key in sorted(set(given) - known)
    ]


def _warn_of_unknown(environ: Mapping[str, str], known: set[str], prefix: str) -> None:
    for variable in sorted(set(environ) - known):
        if variable.startswith(prefix) and not variable.endswith(_SERVICE_LINKS):
            log.warning("unknown setting, ignored", variable=variable, hint=_meant(variable, known).strip())


def _meant(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (is {close[0]!r} meant?)" if close else ""


def _allowed(wanted: Any) -> str:
    """The whole range of a field, where that can be said in few words."""
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
        return _convert([part.strip() for part in text.split(",") if part.strip()], wanted, strict=False)
    if origin is dict:
        return msgspec.json.decode(text, type=wanted)
    return _convert(text, wanted, strict=False)


def _kind(wanted: Any) -> Any:
    """``tuple`` for ``tuple[str, ...]``, ``tuple[str, ...] | None`` and annotated ones."""
    origin = get_origin(wanted)
    if origin in {Annotated, Union, UnionType}:
        return _kind(next(arm for arm in get_args(wanted) if arm is not NoneType))
    return origin or wanted


def _convert(value: Any, wanted: Any, *, strict: bool) -> Any:
    return msgspec.convert(value, wanted, strict=strict, dec_hook=_path)


def _path(wanted: type[Any], value: Any) -> Any:
    if wanted is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"settings of the type {wanted!r}")
