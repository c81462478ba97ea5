"""The OpenAPI 3.1 document, made from the table of routes and its types."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from booking.server.web.problems import (
    CONTENT_TYPE,
    FAILED,
    FORBIDDEN,
    MALFORMED,
    NO_TOKEN,
    NOT_A_USER,
    NOT_JSON,
    TOO_LARGE,
    TOO_MANY,
    UNAVAILABLE,
    Kind,
    Problem,
)
from booking.server.web.rest.routes import Header, Route, RouteAnswer

_JSON: Final = "application/json"
_REFERENCE: Final = "#/components/schemas/{name}"
_AT_ANY_TIME: Final = (MALFORMED, TOO_MANY, UNAVAILABLE, FAILED)
_AUTHENTICATION_PROBLEMS: Final = (NO_TOKEN, NOT_A_USER)
_WITH_A_BODY: Final = (TOO_LARGE, NOT_JSON)
_SCHEME: Final = "bearer"
_NAME_IN_PATH: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": 253,
    "pattern": "^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$",
}

Json = dict[str, Any]
Routes = Sequence[Route[Any, Any]]


def document(routes: Routes, *, root: str, version: str) -> Json:
    """Build the document.

    Args:
        routes: the table.
        root: prefix of every path.
        version: of the API.
    """
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(f"{root}{route.path}", {})[route.method.lower()] = _operation(route, routes)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "GPU Booking",
            "version": version,
            "description": "Book GPUs of a Kubernetes cluster for a span of time.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{_SCHEME: []}],
        "paths": paths,
        "components": {
            "schemas": _schemas(routes),
            "securitySchemes": {
                _SCHEME: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of the cluster's API server for our audience.",
                }
            },
        },
    }


def _schemas(routes: Routes) -> Json:
    types = {type_: None for route in routes for type_ in _types(route)}
    _, schemas = msgspec.json.schema_components([*types, Problem], ref_template=_REFERENCE)
    return schemas


def _types(route: Route[Any, Any]) -> Iterator[Any]:
    if route.takes_body:
        yield route.body
    for answer in route.answers.values():
        yield answer.body
        if answer.or_body:
            yield answer.or_body


def _operation(route: Route[Any, Any], routes: Routes) -> Json:
    operation: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_path(route), *_query(route), *map(_parameter, route.headers)],
        "responses": dict(sorted([*_answers(route, routes), *_problems(route)])),
    }
    if route.takes_body:
        content = {_JSON: {"schema": {"$ref": _REFERENCE.format(name=route.body.__name__)}}}
        operation["requestBody"] = {"required": not route.body_is_optional, "content": content}
    if route.access == "anybody":
        operation["security"] = []
    return operation


def _path(route: Route[Any, Any]) -> Iterator[Json]:
    for name in re.findall(r"\{(\w+)\}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": dict(_NAME_IN_PATH)}


def _query(route: Route[Any, Any]) -> Iterator[Json]:
    """Each parameter with the schema of its field; none of them takes null."""
    _, schemas = msgspec.json.schema_components([route.query], ref_template=_REFERENCE)
    schema = schemas[route.query.__name__]
    for name, described in schema["properties"].items():
        kinds = [kind for kind in described.get("anyOf", [described]) if kind != {"type": "null"}]
        (kind,) = kinds
        plain = {key: value for key, value in kind.items() if key not in {"description", "default"}}
        plain = _without_null(plain)
        about = {"description": kind["description"]} if "description" in kind else {}
        yield {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": plain,
            **about,
        }


def _without_null(schema: Json) -> Json:
    if "enum" not in schema:
        return schema
    return {**schema, "enum": [each for each in schema["enum"] if each is not None]}


def _parameter(header: Header) -> Json:
    schema: Json = {"type": "string"}
    if header.pattern:
        schema["pattern"] = header.pattern
    if header.longest:
        schema |= {"minLength": 1, "maxLength": header.longest}
    return {
        "name": header.name,
        "in": "header",
        "required": False,
        "description": header.about,
        "schema": schema,
    }


def _answers(route: Route[Any, Any], routes: Routes) -> Iterator[tuple[str, Json]]:
    for status, answer in route.answers.items():
        response: Json = {"description": answer.about, "content": {_JSON: {"schema": _schema(answer)}}}
        if answer.headers:
            response["headers"] = _headers(answer.headers)
        if route.links:
            response["links"] = dict(_links(route, routes))
        yield str(status.value), response


def _schema(answer: RouteAnswer) -> Json:
    types = [answer.body, *([answer.or_body] if answer.or_body else [])]
    schemas, _ = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    return {"anyOf": list(schemas)} if answer.or_body else dict(schemas[0])


def _headers(headers: Iterable[Header]) -> Json:
    return {
        header.name: {"description": header.about, "required": header.required, "schema": {"type": "string"}}
        for header in headers
    }


def _links(route: Route[Any, Any], routes: Routes) -> Iterator[tuple[str, Json]]:
    known = {each.name for each in routes}
    for link in route.links:
        if link.route in known:
            parameters = {f"path.{link.parameter}": "$response.body#/id"}
            yield link.route, {"operationId": link.route, "parameters": parameters}


def _problems(route: Route[Any, Any]) -> Iterator[tuple[str, Json]]:
    by_status: dict[HTTPStatus, list[Kind]] = {}
    for kind in _kinds(route):
        by_status.setdefault(kind.status, []).append(kind)
    for status, kinds in by_status.items():
        schema = {"$ref": _REFERENCE.format(name=Problem.__name__)}
        about = "; ".join(f"{kind.title} (`{kind.uri}`)" for kind in kinds)
        response: Json = {"description": f"{about}.", "content": {CONTENT_TYPE: {"schema": schema}}}
        headers = _PROBLEM_HEADERS.get(status)
        if headers:
            response["headers"] = _headers(headers)
        yield str(status.value), response


def _kinds(route: Route[Any, Any]) -> Iterator[Kind]:
    yield from _AT_ANY_TIME
    if route.access != "anybody":
        yield from _AUTHENTICATION_PROBLEMS
    if route.access == "administrator":
        yield FORBIDDEN
    if route.takes_body:
        yield from _WITH_A_BODY
    yield from route.kinds


_PROBLEM_HEADERS: Final[Mapping[HTTPStatus, tuple[Header, ...]]] = {
    HTTPStatus.UNAUTHORIZED: (Header(name="WWW-Authenticate", about="How to show who one is."),),
    HTTPStatus.TOO_MANY_REQUESTS: (Header(name="Retry-After", about="Seconds."),),
    HTTPStatus.SERVICE_UNAVAILABLE: (Header(name="Retry-After", about="Seconds."),),
}
