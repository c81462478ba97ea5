"""Whether a device satisfies the CEL expressions of a claim, as kube-scheduler will judge it. Pure.

A kept library evaluates CEL (``cel-expr-python``, the C++ implementation). What Kubernetes adds to the
language is here: a quantity and a version are maps with one key, so that what takes numbers and texts does
not take them; equality is our own, because for the library a version and a text differ, where Kubernetes has
an error. An error, and whatever is not here, is *unknown*: kube-scheduler may judge otherwise, so nobody
leaves for it.
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
_QUANTITY: Final = "quantity()"
"""The only key of a quantity; its value is a whole number."""
_SEMVER: Final = "semver()"
"""The only key of a version; its value is the text."""
_OURS: Final = frozenset({_QUANTITY, _SEMVER})
_WITHOUT: Final = 'stdlib: {exclude_functions: [{name: "_==_"}, {name: "_!=_"}]}'
"""What of the library's functions is replaced."""
_KINDS: Final = (
    *("INT", "UINT", "DOUBLE", "STRING", "BYTES", "BOOL"),
    *("NULL", "LIST", "MAP", "TYPE", "TIMESTAMP", "DURATION"),
)
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
        attributes.setdefault(domain or driver, {})[name] = _attribute(value)
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


def _attribute(value: Mapping[str, Any]) -> Any:
    kind, one = next(iter(value.items()))
    return {_SEMVER: one} if kind == "version" else one


@lru_cache(maxsize=1024)
def _quantity(text: str) -> dict[str, int]:
    try:
        amount = parse_amount(text)
    except QuantityError as error:
        raise ValueError(str(error)) from error
    if amount != int(amount):
        raise ValueError(f"The quantity {text} is not a whole number.")
    return {_QUANTITY: int(amount)}


def _version(text: str) -> dict[str, str]:
    if not _VERSION.fullmatch(text):
        raise ValueError(f"{text} is not a version.")
    return {_SEMVER: text}


def _parts(version: Mapping[str, Any]) -> tuple[int, int, int]:
    match = _VERSION.fullmatch(_plain(version[_SEMVER]))
    if not match or match[4]:
        raise ValueError("The version cannot be compared.")
    return int(match[1]), int(match[2]), int(match[3])


def _comparable(one: Mapping[str, Any]) -> tuple[str, Any]:
    if _QUANTITY in one:
        return _QUANTITY, _plain(one[_QUANTITY])
    return _SEMVER, _parts(one)


def _compare(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    (kind, left), (other_kind, right) = _comparable(one), _comparable(other)
    if kind != other_kind:
        raise ValueError("A quantity and a version cannot be compared.")
    return _sign(left, right)


def _plain(value: Any) -> Any:
    return value.plain_value() if isinstance(value, cel.Value) else value


def _is_equal(one: Any, other: Any) -> bool:
    """As cel-go: numbers of all kinds are compared, other kinds differ; a quantity has only its like."""
    left, right = _plain(one), _plain(other)
    if _has_ours(left) or _has_ours(right):
        return _compare(left, right) == 0
    if isinstance(left, bool) != isinstance(right, bool):
        return False
    return bool(left == right)


def _has_ours(value: Any) -> bool:
    if isinstance(value, dict):
        return not _OURS.isdisjoint(value) or any(_has_ours(one) for one in value.values())
    return isinstance(value, list) and any(_has_ours(one) for one in value)


def _sign(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


@lru_cache(maxsize=1)
def _environment() -> Any:
    integer, text, yes, ours = _TYPES.INT, _TYPES.STRING, _TYPES.BOOL, _TYPES.MAP
    functions = [
        _function("quantity", ours, [text], _quantity, is_member=False),
        _function("semver", ours, [text], _version, is_member=False),
        _function("compareTo", integer, [ours, ours], _compare),
        _function("isGreaterThan", yes, [ours, ours], lambda one, other: _compare(one, other) > 0),
        _function("isLessThan", yes, [ours, ours], lambda one, other: _compare(one, other) < 0),
        _function("asInteger", integer, [ours], lambda one: _plain(one[_QUANTITY])),
        *(_function(part, integer, [ours], _taking(at)) for at, part in enumerate(_NUMBERS)),
        _of_pairs("_==_", _is_equal),
        _of_pairs("_!=_", lambda one, other: not _is_equal(one, other)),
    ]
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(_WITHOUT),
        variables={"device": _TYPES.DYN},
        extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()],
        functions=functions,
    )


def _taking(at: int) -> Callable[[Mapping[str, Any]], int]:
    return lambda version: _parts(version)[at]


def _of_pairs(name: str, made: Callable[..., Any]) -> Any:
    """A function of two values of any kinds; the library has none for two DYN."""
    kinds = [getattr(_TYPES, kind) for kind in _KINDS]
    pairs = [[one, other] for one in kinds for other in kinds]
    return cel.FunctionDecl(
        name, [_overload(name, _TYPES.BOOL, pair, made, is_member=False) for pair in pairs]
    )


def _function(
    name: str, result: Type, parameters: list[Type], made: Callable[..., Any], *, is_member: bool = True
) -> Any:
    return cel.FunctionDecl(name, [_overload(name, result, parameters, made, is_member=is_member)])


def _overload(
    name: str, result: Type, parameters: list[Type], made: Callable[..., Any], *, is_member: bool = True
) -> Any:
    kinds = "_".join(one.name() for one in parameters)
    return cel.Overload(
        f"{name}_{kinds}", return_type=result, parameters=parameters, is_member=is_member, impl=made
    )
