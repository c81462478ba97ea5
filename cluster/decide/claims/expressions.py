"""Whether a device satisfies the CEL expressions of a claim, as kube-scheduler will judge it. Pure.

A kept library evaluates CEL (``cel-expr-python``, the C++ implementation). What Kubernetes adds to the
language is here: quantities are whole numbers, versions are texts, so that a mixture of the two is an error.
An error, and whatever is not here, is *unknown*: kube-scheduler may judge otherwise, so nobody leaves for it.
Source: k8s.io/dynamic-resource-allocation 0.37 (cel/compile.go), k8s.io/apiserver 0.37 (cel/library).
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from cluster.objects.quantity import QuantityError, parse_amount

Entry = Mapping[str, Any]
"""A device as a ResourceSlice has it."""

_VERSION: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_NUMBERS: Final = ("major", "minor", "patch")
_TYPES: Final = cel.Type
Type = Any
"""A type of the library, which has no types for mypy."""


def judged(expression: str, driver: str, device: Entry) -> bool | None:
    """Whether the device satisfies an expression; None if that cannot be said here."""
    program = _program(expression)
    if program is None:
        return None
    try:
        found = program.eval(data={"device": _variable(driver, device)})
        return bool(found.value()) if found.type() == _TYPES.BOOL else None
    except (RuntimeError, ValueError, TypeError, KeyError):
        return None


@lru_cache(maxsize=1024)
def _program(expression: str) -> Any | None:
    try:
        return _environment().compile(expression)
    except (RuntimeError, ValueError, TypeError):
        return None


def _variable(driver: str, device: Entry) -> dict[str, Any]:
    """The variable ``device``: names without a domain belong to the driver's."""
    attributes: dict[str, dict[str, Any]] = {}
    for key, value in (device.get("attributes") or {}).items():
        domain, _, name = key.rpartition("/")
        attributes.setdefault(domain or driver, {})[name] = next(iter(value.values()))
    capacity: dict[str, dict[str, Any]] = {}
    for key, amount in (device.get("capacity") or {}).items():
        domain, _, name = key.rpartition("/")
        capacity.setdefault(domain or driver, {})[name] = _quantity(str(amount["value"]))
    return {
        "driver": driver,
        "attributes": attributes,
        "capacity": capacity,
        "allowMultipleAllocations": bool(device.get("allowMultipleAllocations")),
    }


@lru_cache(maxsize=1024)
def _quantity(text: str) -> int:
    try:
        amount = parse_amount(text)
    except QuantityError as error:
        raise ValueError(str(error)) from error
    if amount != int(amount):
        raise ValueError(f"The quantity {text} is not a whole number.")
    return int(amount)


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text} is not a version.")
    return text


def _parts(text: str) -> tuple[int, int, int]:
    match = _VERSION.fullmatch(text)
    if not match or match[4]:
        raise ValueError(f"{text} cannot be compared.")
    return int(match[1]), int(match[2]), int(match[3])


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


@lru_cache(maxsize=1)
def _environment() -> Any:
    integer, text, yes = _TYPES.INT, _TYPES.STRING, _TYPES.BOOL
    both = {
        "compareTo": (integer, _sign),
        "isGreaterThan": (yes, lambda one, other: one > other),
        "isLessThan": (yes, lambda one, other: one < other),
    }
    functions = [
        _function("quantity", integer, [text], _quantity, is_member=False),
        _function("semver", text, [text], _version, is_member=False),
        *(_compared(name, result, made) for name, (result, made) in both.items()),
        _function("asInteger", integer, [integer], int),
        *(_function(part, integer, [text], _taking(at)) for at, part in enumerate(_NUMBERS)),
    ]
    return cel.NewEnv(
        variables={"device": _TYPES.DYN},
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=functions,
    )


def _taking(at: int) -> Callable[[str], int]:
    return lambda text: _parts(text)[at]


def _function(
    name: str, result: Type, parameters: list[Type], made: Callable[..., Any], *, is_member: bool = True
) -> Any:
    return cel.FunctionDecl(name, [_overload(name, result, parameters, made, is_member=is_member)])


def _compared(name: str, result: Type, made: Callable[[Any, Any], Any]) -> Any:
    """A comparison of two quantities, or of two versions."""
    number, text = _TYPES.INT, _TYPES.STRING
    overloads = [
        _overload(name, result, [number, number], made),
        _overload(name, result, [text, text], lambda one, other: made(_parts(one), _parts(other))),
    ]
    return cel.FunctionDecl(name, overloads)


def _overload(
    name: str, result: Type, parameters: list[Type], made: Callable[..., Any], *, is_member: bool = True
) -> Any:
    kinds = "_".join(one.name() for one in parameters)
    return cel.Overload(
        f"{name}_{kinds}", return_type=result, parameters=parameters, is_member=is_member, impl=made
    )
