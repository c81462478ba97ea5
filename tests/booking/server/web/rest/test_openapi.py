"""The OpenAPI document, and requests that are generated from it alone."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import settings
from jsonschema import Draft202012Validator

from booking.server.__main__ import LONGEST_BODY
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.app import create_app
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from cluster.process.probes import Server, serve
from tests.booking.server.web.served import Served

EXAMPLES: Final = 5
"""Requests per operation and phase."""
EXAMPLES_IN_A_SOAK: Final = 300
CONFIG: Final = Path(__file__).with_name("schemathesis.toml")
OPENAPI: Final = "/api/v1/openapi.json"


@pytest.fixture
def server(served: Served) -> Iterator[Server]:
    """The API on a real port; alice is an administrator, and no rate limit is reached."""
    served.signing_in.administrators.add("alice")
    often = RateLimits(served.clock, per_second=1, burst=10**9)
    guard = RequestGuard(served.signing_in, often, AnonymousLimits(often))
    app = create_app(served.parts, guard, audience="gpu-booking")
    made = serve(app, "127.0.0.1", 0, threads=4, longest_body=LONGEST_BODY)
    yield made
    made.close()


def document(served: Served) -> dict[str, Any]:
    answer = served.client.get(OPENAPI)
    assert answer.status_code == 200
    decoded: dict[str, Any] = msgspec.json.decode(answer.data)
    return decoded


def test_the_document_is_open_to_everybody_and_is_openapi_3_1(served: Served) -> None:
    spec = document(served)
    assert spec["openapi"] == "3.1.0"
    for schema in spec["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_the_document_lists_every_address_of_the_api_and_no_other(served: Served) -> None:
    spec = document(served)
    addresses = {(method.upper(), path) for path, methods in spec["paths"].items() for method in methods}
    app = create_app(served.parts, served.guard, audience="gpu-booking")
    rules = {
        (method, re.sub(r"<(\w+)>", r"{\1}", rule.rule))
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD"}
    }
    assert addresses == rules


def test_every_operation_documents_the_rate_limit(served: Served) -> None:
    for path, methods in document(served)["paths"].items():
        for method, operation in methods.items():
            assert "Retry-After" in operation["responses"]["429"]["headers"], (method, path)


def test_every_reference_in_the_document_resolves(served: Served) -> None:
    spec = document(served)
    text = msgspec.json.encode(spec).decode()
    known = {f"#/components/schemas/{name}" for name in spec["components"]["schemas"]}
    assert set(re.findall(r'"\$ref":"([^"]+)"', text)) == known


@pytest.mark.parametrize(
    ("method", "path", "fields"),
    [
        ("PATCH", "/bookings/{id}", {}),
        ("POST", "/bookings/{id}/release", {}),
        ("DELETE", "/bookings/{id}", {"start": "2026-03-10T09:00:00Z"}),
    ],
)
@pytest.mark.parametrize(("query", "has_tag"), [("", True), ("?dry_run=true", False)])
def test_an_answer_has_the_headers_that_the_document_requires(
    served: Served, method: str, path: str, fields: dict[str, str], query: str, *, has_tag: bool
) -> None:
    booking = served.booked(**fields)
    address = f"/api/v1{path}"
    body = {"end": "2026-03-11T09:00:00Z"} if method == "PATCH" else {}
    answer = served.ask(method, f"{address.replace('{id}', booking)}{query}", json=body)
    assert answer.status_code == 200
    documented = document(served)["paths"][address][method.lower()]["responses"]["200"]["headers"]
    assert ("ETag" in answer.headers, documented["ETag"]["required"]) == (has_tag, False)


@pytest.mark.component
def test_requests_generated_from_the_document_get_only_documented_answers(
    server: Server, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Requests that the document allows and that it does not, alone and in sequences."""
    examples = EXAMPLES_IN_A_SOAK if settings.get_current_profile_name() == "soak" else EXAMPLES
    command = [
        str(Path(sys.executable).with_name("st")),
        "--config-file",
        str(CONFIG),
        "run",
        f"http://127.0.0.1:{server.port}{OPENAPI}",
        "--header",
        "Authorization: Bearer alice-token",
        "--max-examples",
        str(examples),
        "--seed",
        str(request.config.getoption("randomly_seed")),
        "--checks",
        "all",
        "--generation-database",
        "none",
        "--continue-on-failure",
        "--no-color",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=1800)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]
