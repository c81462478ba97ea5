"""Field and label selectors over plain objects, as far as our parts use them."""

from collections.abc import Mapping
from typing import Any

from cluster.kube.port import Selection


def selects(selection: Selection, obj: Mapping[str, Any]) -> bool:
    """Whether the object is among the selected."""
    metadata = obj["metadata"]
    if selection.namespace is not None and metadata.get("namespace") != selection.namespace:
        return False
    labels = metadata.get("labels") or {}
    return all(_holds(term, _field(obj, _name(term))) for term in _terms(selection.field_selector)) and all(
        _holds(term, labels.get(_name(term))) for term in _terms(selection.label_selector)
    )


def _terms(selector: str | None) -> list[str]:
    return [term.strip() for term in selector.split(",")] if selector else []


def _name(term: str) -> str:
    return term.partition("=")[0].removesuffix("!").strip()


def _holds(term: str, value: str | None) -> bool:
    if "!=" in term:
        return value != term.partition("!=")[2].strip()
    if "=" in term:
        return (value or "") == term.rpartition("=")[2].strip()
    return value is not None


def _field(obj: Mapping[str, Any], path: str) -> str | None:
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return None if value is None else str(value)
