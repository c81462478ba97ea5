"""Dry runs of administrators by REST: ``dry_run=true``."""

from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.booking.server.web.rest.test_administration import ADMIN, BLOCK, EVICTION, EXEMPTION, ORDER
from tests.booking.server.web.served import Served, problem

DRY = "?dry_run=true"


@pytest.fixture
def admin(served: Served) -> Served:
    served.signing_in.administrators.add("alice")
    return served


def audited(admin: Served) -> int:
    return len(admin.ask("GET", f"{ADMIN}/audit").get_json()["audit"])


def test_a_dry_run_of_maintenance_is_refused_while_capacity_is_unknown(admin: Served) -> None:
    admin.unknown_capacity = "The cache is not filled yet."
    refused = problem(admin.ask("POST", f"{ADMIN}/blocks{DRY}", json=BLOCK), 503)
    assert refused["detail"].endswith("which bookings it would put at risk. The cache is not filled yet.")
    assert admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK).status_code == 201


def test_a_dry_run_of_the_end_of_maintenance_changes_nothing(admin: Served) -> None:
    block = admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK).get_json()
    del block["at_risk"]
    stored = admin.stored
    tried = admin.ask("DELETE", f"{ADMIN}/blocks/{block['id']}{DRY}", json={"reason": "It works again."})

    assert (tried.status_code, tried.get_json()) == (200, block | {"dry_run": True})
    assert admin.stored == stored
    assert admin.ask("GET", f"{ADMIN}/blocks").get_json()["blocks"] == [block]


def test_a_dry_run_of_an_eviction_shows_the_owner_of_the_pod(admin: Served) -> None:
    tried = admin.ask("POST", f"{ADMIN}/evictions{DRY}", json=EVICTION)
    pod = {"user": "bob", "booking": "b-1", "node": "node-a", "gpus": 2, "controller": "Job/train"}
    pod["not_replaced"] = None
    assert (tried.status_code, tried.get_json()) == (200, EVICTION | pod | {"dry_run": True})
    assert (admin.evictions.orders, audited(admin)) == ([], 0)


def test_a_dry_run_of_a_gpu_order_shows_the_gpu_that_would_be_cordoned(admin: Served) -> None:
    tried = admin.ask("POST", f"{ADMIN}/gpu-orders{DRY}", json=ORDER)
    assert (tried.status_code, tried.get_json()) == (200, ORDER | {"gpu": "GPU-0", "dry_run": True})
    assert (admin.gpus.orders, audited(admin)) == ([], 0)


TRIED = [
    ("POST", "/blocks", BLOCK),
    ("DELETE", "/blocks/b-0", {"reason": "r"}),
    ("POST", "/exemptions", EXEMPTION),
    ("DELETE", "/exemptions/b-0", {"reason": "r"}),
    ("POST", "/evictions", EVICTION),
    ("POST", "/gpu-orders", ORDER),
]


@pytest.mark.parametrize(("method", "path", "body"), TRIED)
def test_only_administrators_may_dry_run_administration(
    served: Served, method: str, path: str, body: dict[str, Any]
) -> None:
    assert problem(served.ask(method, ADMIN + path + DRY, json=body), 403)["type"].endswith(":forbidden")
    assert served.stored == 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/blocks", BLOCK | {"node": "node-z"}, 422),
        ("POST", "/blocks", BLOCK | {"reason": ""}, 400),
        ("DELETE", "/blocks/b-0", {"reason": "r"}, 404),
        ("POST", "/exemptions", EXEMPTION | {"limits": {"nothing": 1}}, 422),
        ("DELETE", "/exemptions/b-0", {"reason": "r"}, 404),
        ("POST", "/evictions", EVICTION | {"pod": "train-1"}, 404),
        ("POST", "/gpu-orders", ORDER | {"gpu": "7"}, 404),
    ],
)
def test_a_dry_run_is_refused_as_the_real_request_would_be_and_leaves_no_trace(
    admin: Served, method: str, path: str, body: dict[str, Any], status: int
) -> None:
    tried = problem(admin.ask(method, ADMIN + path + DRY, json=body), status)
    assert (admin.stored, audited(admin)) == (0, 0)
    done = problem(admin.ask(method, ADMIN + path, json=body), status)
    assert (tried["type"], tried["detail"]) == (done["type"], done["detail"])


@pytest.mark.parametrize(("method", "path", "body"), TRIED)
def test_the_key_of_a_dry_run_remains_free_for_another_request(
    admin: Served, method: str, path: str, body: dict[str, Any]
) -> None:
    key = {"Idempotency-Key": "k-1"}
    admin.ask(method, ADMIN + path + DRY, json=body, headers=key)
    assert admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK, headers=key).status_code == 201
    again = admin.ask(method, ADMIN + path + DRY, json=body, headers=key)
    assert again.status_code in {200, 404}


@pytest.mark.parametrize(("method", "path", "body"), TRIED)
def test_the_document_describes_the_answer_to_a_dry_run(
    admin: Served, method: str, path: str, body: dict[str, Any]
) -> None:
    document: dict[str, Any] = msgspec.json.decode(admin.client.get("/api/v1/openapi.json").data)
    name = path.split("/")[1]
    if method == "DELETE":
        made = admin.ask("POST", f"{ADMIN}/{name}", json=BLOCK if name == "blocks" else EXEMPTION)
        path = f"/{name}/{made.get_json()['id']}"
    answer = admin.ask(method, ADMIN + path + DRY, json=body)
    assert answer.status_code == 200, answer.text
    place = f"{ADMIN}/{name}" + ("/{id}" if method == "DELETE" else "")
    schema = document["paths"][place][method.lower()]["responses"]["200"]["content"]["application/json"]
    only = schema["schema"].get("anyOf", [schema["schema"]])[-1]
    assert only["$ref"].rpartition("/")[2].startswith("Would")
    whole = {**only, "components": document["components"]}
    Draft202012Validator(whole).validate(answer.get_json())
