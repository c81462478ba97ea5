"""Settings as an administrator writes them: environment variables and their values."""

import enum
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec

from cluster import names
from docs.tables.markdown import code, docstrings, prose, table


def settings_table(kind: type[msgspec.Struct]) -> str:
    """Variable, default and meaning of every field."""
    meanings = docstrings(Path(str(vars(sys.modules[kind.__module__])["__file__"])), kind.__name__)
    return table(
        ("variable", "default", "meaning"),
        (
            (
                code(names.setting(field.name)),
                "(required)" if field.required else code(written(field.default)),
                prose(meanings.get(field.name, "")) + _choices(field.type) + _range(field.type),
            )
            for field in msgspec.structs.fields(kind)
        ),
    )


def written(value: Any) -> str:
    """A value as it is written in the variable; empty if it is not set."""
    match value:
        case None:
            text = ""
        case bool():
            text = str(value).lower()
        case timedelta():
            text = str(msgspec.to_builtins(value))
        case float():
            text = f"{value:g}"
        case enum.Enum():
            text = str(value.value)
        case tuple() if all(isinstance(each, (str, Path)) for each in value):
            text = ",".join(map(str, value))
        case tuple():
            text = msgspec.json.encode(value).decode()
        case _:
            text = str(value)
    return text


def _choices(kind: Any) -> str:
    if get_origin(kind) is Literal:
        values = [str(value) for value in get_args(kind)]
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        values = [str(member.value) for member in kind]
    else:
        return ""
    return f" One of {', '.join(map(code, values))}."


def _range(kind: Any) -> str:
    """The bounds of a number, if it has any."""
    for limits in getattr(kind, "__metadata__", ()):
        if isinstance(limits, msgspec.Meta) and limits.ge is not None:
            least = f"{limits.ge:g}"
            return f" At least {least}." if limits.le is None else f" {least} to {limits.le:g}."
    return ""
