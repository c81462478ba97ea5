"""Every field of ``spec`` of a Pod, from the OpenAPI document of a real API server, in a compact form.

``{"PodSpec": {"containers": "[Container]", "nodeSelector": "{string}", "hostNetwork": "boolean", ...}, ...}``

``kubectl get --raw /openapi/v3/api/v1 | .venv/bin/python -m tests.fakes.pod_spec_schema`` writes it anew.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
Schema = dict[str, dict[str, str]]

STORED: Final = Path(__file__).parents[1] / "fixtures" / "kube" / "pod_spec.json"
_ROOT: Final = "io.k8s.api.core.v1.PodSpec"
_WHOLE: Final = frozenset({"Quantity", "IntOrString", "Time", "FieldsV1"})
"""Types that are one value in JSON."""


def stored_schema() -> Schema:
    """The schema in the fixture."""
    found: Schema = json.loads(STORED.read_text())
    return found


def compact(openapi: Json) -> Schema:
    """The types that can be reached from ``PodSpec``: their fields, and the type of each."""
    schemas = openapi["components"]["schemas"]
    found: Schema = {}
    left = [_ROOT]
    while left:
        name = left.pop()
        if _short(name) in found or _short(name) in _WHOLE:
            continue
        fields = schemas[name].get("properties") or {}
        found[_short(name)] = {field: _type(schema) for field, schema in sorted(fields.items())}
        left += [reference for schema in fields.values() for reference in _references(schema)]
    return dict(sorted(found.items()))


def written(schema: Schema) -> str:
    """The text of the fixture: one type on each line."""
    lines = (f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in schema.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _type(schema: Json) -> str:
    if references := _references(schema, deep=False):
        return _short(references[0])
    if schema.get("type") == "array":
        return f"[{_type(schema['items'])}]"
    if "additionalProperties" in schema:
        return f"{{{_type(schema['additionalProperties'])}}}"
    return str(schema.get("type", "string"))


def _references(schema: Json, *, deep: bool = True) -> list[str]:
    parts = [schema, *schema.get("allOf", ())]
    if deep:
        parts += [
            schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)
        ]
        return [name for part in parts[1:] for name in _references(part)] + _references(schema, deep=False)
    return [part["$ref"].rpartition("/")[2] for part in parts if "$ref" in part]


if __name__ == "__main__":
    STORED.write_text(written(compact(json.load(sys.stdin))))
