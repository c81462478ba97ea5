"""JSON patches (RFC 6902), as far as the webhook writes them, applied as the API server applies them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from booking.controller.admission.patch import Operation


def applied(obj: Mapping[str, Any], patch: Iterable[Operation]) -> dict[str, Any]:
    """A copy of the object with the patch applied.

    Raises:
        ValueError: a step that the API server would refuse.
    """
    result: dict[str, Any] = _over_the_wire(dict(obj))
    for step in patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step.path.split("/")[1:]]
        target = result
        for part in way:
            target = target[part]
        if not isinstance(target, dict) or (step.op != "add" and last not in target):
            raise ValueError(f"The API server would refuse this step: {step}.")
        if step.op == "remove":
            del target[last]
        else:
            target[last] = _over_the_wire(step.value)
    return result


def _over_the_wire(value: Any) -> Any:
    """A copy of which no two parts are one object."""
    return msgspec.json.decode(msgspec.json.encode(value))
