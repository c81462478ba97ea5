"""What administrators do by REST, and that nobody else can."""

from typing import Any

import pytest

from tests.booking.server.web.served import AVAILABILITY, BOOKINGS, Served, about, problem, rules
from tests.fakes.objects import A100, A6000

ADMIN = "/api/v1/admin"
BLOCK = {
    "node": "node-a",
    "start": "2026-03-10T00:00:00Z",
    "end": "2026-03-11T00:00:00Z",
    "reason": "The power supply is replaced.",
}
EXEMPTION = {
    "user": "bob",
    "start": "2026-03-02T09:00:00Z",
    "end": "2026-04-02T00:00:00Z",
    "limits": {"longest": "P21D"},
    "reason": "A paper is due.",
}
EVICTION = {"namespace": "research", "pod": "train-0", "reason": "It holds a broken GPU."}
ORDER = {"node": "node-a", "gpu": "0", "order": "cordon", "reason": "The fan is loud."}
LONG = "x" * 501


@pytest.fixture
def admin(served: Served) -> Served:
    served.signing_in.administrators.add("alice")
    return served


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/blocks", None),
        ("POST", "/blocks", BLOCK),
        ("DELETE", "/blocks/1", {}),
        ("GET", "/exemptions", None),
        ("POST", "/exemptions", EXEMPTION),
        ("DELETE", "/exemptions/1", {}),
        ("GET", "/audit", None),
        ("GET", "/denied", None),
        ("POST", "/evictions", EVICTION),
        ("POST", "/gpu-orders", ORDER),
    ],
)
def test_only_administrators_may_administer(
    served: Served, method: str, path: str, body: dict[str, Any] | None
) -> None:
    refusal = problem(served.ask(method, ADMIN + path, json=body), 403)

    assert refusal["type"].endswith(":forbidden")
    assert served.stored == 0
    problem(served.client.open(ADMIN + path, method=method, json=body), 401)


def test_a_block_is_made_seen_by_everybody_and_removed(admin: Served) -> None:
    made = admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK)
    assert made.status_code == 201, made.text
    block = made.get_json()
    assert block.pop("at_risk") == []
    assert (block["node"], block["created_by"], block["count"]) == ("node-a", "alice", None)

    assert admin.ask("GET", f"{ADMIN}/blocks").get_json()["blocks"] == [block]
    models = admin.ask("GET", f"{AVAILABILITY}?model={A100}", user="bob").get_json()["models"]
    ((seen,),) = [model["blocks"] for model in models]
    assert seen == {key: block[key] for key in ("node", "model", "count", "start", "end", "reason")}

    ((before, during, after),) = [model["steps"] for model in models]
    assert (during["start"], during["end"]) == (block["start"], block["end"])
    left = {"capacity": 4, "free": 4}
    assert during == {key: during[key] for key in ("start", "end")} | left
    assert [(step["capacity"], step["free"]) for step in (before, after)] == [(8, 8), (8, 8)]

    removed = admin.ask("DELETE", f"{ADMIN}/blocks/{block['id']}", json={"reason": "It works again."})
    assert (removed.status_code, removed.get_json()) == (200, block)
    problem(admin.ask("DELETE", f"{ADMIN}/blocks/{block['id']}"), 404)


def test_the_answer_to_a_block_lists_the_bookings_that_it_puts_at_risk(admin: Served) -> None:
    span = {"start": "2026-03-10T12:00:00Z", "end": "2026-03-12T12:00:00Z"}
    lost = admin.booked(user="bob", model=A6000, count=2, start=span["start"])
    admin.booked(user="alice", model=A6000, start="2026-03-16T00:00:00Z")
    block = admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK).get_json()
    assert block["at_risk"] == [{"id": lost, "user": "bob", "model": A6000, "count": 2} | span]


def test_an_exemption_is_made_and_removed(admin: Served) -> None:
    made = admin.ask("POST", f"{ADMIN}/exemptions", json=EXEMPTION)
    assert made.status_code == 201, made.text
    exemption = made.get_json()

    for query in ("", "?user=bob"):
        assert admin.ask("GET", f"{ADMIN}/exemptions{query}").get_json()["exemptions"] == [exemption]
    assert admin.ask("GET", f"{ADMIN}/exemptions?user=alice").get_json() == {"exemptions": []}
    assert admin.ask("DELETE", f"{ADMIN}/exemptions/{exemption['id']}").get_json() == exemption


LISTS = {"blocks": BLOCK, "exemptions": EXEMPTION}
"""Name of a list -> an entry of it."""


def several(admin: Served, what: str, number: int) -> list[dict[str, Any]]:
    """Entries of a list in their order; the first two begin at the same instant."""
    starts = [f"2026-03-{max(10, 9 + day)}T00:00:00Z" for day in range(number)]
    ends = {"end": "2026-03-25T00:00:00Z"}
    made = [
        admin.ask("POST", f"{ADMIN}/{what}", json=LISTS[what] | {"start": start} | ends).get_json()
        for start in starts
    ]
    for each in made:
        each.pop("at_risk", None)
    return sorted(made, key=lambda entry: (entry["start"], entry["id"]))


@pytest.mark.parametrize("what", LISTS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 500])
def test_maintenance_and_exemptions_come_a_page_at_a_time(admin: Served, what: str, size: int) -> None:
    made, found, query = several(admin, what, 5), [], f"?limit={size}"
    while True:
        page = admin.ask("GET", f"{ADMIN}/{what}{query}").get_json()
        assert len(page[what]) <= size
        found += page[what]
        if "continue" not in page:
            break
        query = f"?limit={size}&continue={page['continue']}"
    assert found == made


@pytest.mark.parametrize("what", LISTS)
def test_a_list_continues_after_its_last_entry_has_gone(admin: Served, what: str) -> None:
    first, second, *others = several(admin, what, 4)
    following = admin.ask("GET", f"{ADMIN}/{what}?limit=2").get_json()["continue"]
    for gone in (first, second):
        assert admin.ask("DELETE", f"{ADMIN}/{what}/{gone['id']}").status_code == 200
    assert admin.ask("GET", f"{ADMIN}/{what}?continue={following}").get_json() == {what: others}


def test_exemptions_of_one_user_come_a_page_at_a_time(admin: Served) -> None:
    several(admin, "exemptions", 2)
    hers = admin.ask("POST", f"{ADMIN}/exemptions", json=EXEMPTION | {"user": "alice"}).get_json()
    url = f"{ADMIN}/exemptions?user=bob&limit=1"
    first = admin.ask("GET", url).get_json()
    second = admin.ask("GET", f"{url}&continue={first['continue']}").get_json()
    assert "continue" not in second
    assert hers not in [*first["exemptions"], *second["exemptions"]]


@pytest.mark.parametrize("what", LISTS)
def test_an_invalid_page_of_a_list_is_refused(admin: Served, what: str) -> None:
    refusal = problem(admin.ask("GET", f"{ADMIN}/{what}?continue=nonsense"), 422)
    assert rules(refusal) == ["not-a-page"]
    assert refusal["detail"] == "No list goes on at 'nonsense': begin with its first page."
    for limit in ("0", "501", "ten"):
        refusal = problem(admin.ask("GET", f"{ADMIN}/{what}?limit={limit}"), 400)
        assert about(refusal) == {"limit": "malformed-parameter"}


def test_the_audit_can_be_filtered_by_object_or_user(admin: Served) -> None:
    booking = admin.booked(user="bob")
    block = admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK).get_json()["id"]

    def subjects(query: str) -> list[str]:
        audit = admin.ask("GET", f"{ADMIN}/audit?{query}").get_json()["audit"]
        return [entry["subject"] for entry in audit]

    assert subjects(f"subject={booking}") == [booking]
    assert subjects("actor=alice") == [block]
    assert subjects(f"subject={booking}&actor=alice") == []
    first = admin.ask("GET", f"{ADMIN}/audit?actor=alice&limit=1").get_json()
    assert "continue" not in first


def test_the_audit_shows_what_was_done_a_page_at_a_time(admin: Served) -> None:
    admin.booked()
    admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK)
    first = admin.ask("GET", f"{ADMIN}/audit?limit=1").get_json()
    second = admin.ask("GET", f"{ADMIN}/audit?limit=1&continue={first['continue']}").get_json()

    (newest,), (older,) = first["audit"], second["audit"]
    assert newest["number"] > older["number"]
    assert (newest["actor"], newest["reason"]) == ("alice", BLOCK["reason"])
    assert "continue" not in second


def test_refused_bookings_are_listed_as_denied_demand(admin: Served) -> None:
    problem(admin.book(user="bob", model=A100, duration="P90D"), 422)
    (denied,) = admin.ask("GET", f"{ADMIN}/denied").get_json()["denied"]

    assert (denied["user"], denied["model"]) == ("bob", A100)
    assert "longest" in denied["rules"]


def test_only_an_administrator_may_book_for_another_user(admin: Served) -> None:
    problem(admin.book(user="bob", model=A100, duration="P1D", **{"for": "alice"}), 400)
    body = {"model": A100, "duration": "P1D", "user": "bob"}
    problem(admin.ask("POST", BOOKINGS, user="carol", json=body), 401)
    refused = problem(admin.ask("POST", BOOKINGS, user="bob", json=body | {"user": "alice"}), 403)
    assert refused["type"].endswith(":forbidden")

    tried = admin.ask("POST", f"{BOOKINGS}?dry_run=true", json=body).get_json()
    assert tried["user"] == "bob"
    made = admin.ask("POST", BOOKINGS, json=body)
    assert made.status_code == 201, made.text
    assert (made.get_json()["user"], made.get_json()["created_by"]) == ("bob", "alice")
    assert admin.ask("GET", f"{BOOKINGS}/{made.get_json()['id']}", user="bob").status_code == 200


def test_an_administrator_ends_another_users_booking_with_a_reason(admin: Served) -> None:
    his = admin.booked(user="bob")
    problem(admin.ask("POST", f"{BOOKINGS}/{his}/release"), 422)
    answer = admin.ask("POST", f"{BOOKINGS}/{his}/release", json={"reason": "The node burns."})

    assert answer.status_code == 200, answer.text
    seen = admin.ask("GET", f"{BOOKINGS}/{his}", user="bob").get_json()
    assert (seen["state"], seen["ended_by"], seen["reason"]) == ("ended", "alice", "The node burns.")


def test_a_pod_is_evicted_by_name_and_reason(admin: Served) -> None:
    answer = admin.ask("POST", f"{ADMIN}/evictions", json=EVICTION)

    assert (answer.status_code, answer.get_json()) == (202, EVICTION)
    assert admin.evictions.orders == [("research", "train-0", "alice", EVICTION["reason"])]
    (written,) = admin.ask("GET", f"{ADMIN}/audit").get_json()["audit"]
    assert (written["actor"], written["reason"]) == ("alice", EVICTION["reason"])
    problem(admin.ask("POST", f"{ADMIN}/evictions", json=EVICTION | {"pod": "train-1"}), 404)
    problem(admin.ask("POST", f"{ADMIN}/evictions", json=EVICTION | {"pod": "../../nodes"}), 404)
    assert len(admin.evictions.orders) == 1


def test_a_gpu_is_cordoned_and_its_uuid_is_returned(admin: Served) -> None:
    answer = admin.ask("POST", f"{ADMIN}/gpu-orders", json=ORDER)

    assert (answer.status_code, answer.get_json()) == (202, ORDER | {"gpu": "GPU-0"})
    assert admin.gpus.orders == [("node-a", "GPU-0", "cordon", "alice: The fan is loud.")]
    (written,) = admin.ask("GET", f"{ADMIN}/audit").get_json()["audit"]
    assert (written["action"], written["subject"]) == ("gpu.cordon", "node-a/0")
    problem(admin.ask("POST", f"{ADMIN}/gpu-orders", json=ORDER | {"gpu": "7"}), 404)
    problem(admin.ask("POST", f"{ADMIN}/gpu-orders", json=ORDER | {"node": "../x"}), 404)
    problem(admin.ask("POST", f"{ADMIN}/gpu-orders", json=ORDER | {"order": "burn"}), 400)
    assert len(admin.gpus.orders) == 1


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        *(("blocks", BLOCK, field) for field in ("node", "start", "end", "reason")),
        *(("exemptions", EXEMPTION, field) for field in ("user", "start", "end", "limits", "reason")),
        *(("evictions", EVICTION, field) for field in ("namespace", "pod", "reason")),
        *(("gpu-orders", ORDER, field) for field in ("node", "gpu", "order", "reason")),
    ],
)
def test_every_field_is_read_strictly(admin: Served, path: str, body: dict[str, Any], field: str) -> None:
    for value in (7, "", LONG, "a\x00b", ["a"], "\ud800", True):
        refusal = problem(admin.ask("POST", f"{ADMIN}/{path}", json=body | {field: value}), 400)
        assert about(refusal) == {field: "malformed-field"}
    for incomplete in ({key: body[key] for key in body if key != field}, body | {field: None}):
        refusal = problem(admin.ask("POST", f"{ADMIN}/{path}", json=incomplete), 400)
        assert about(refusal) == {field: "missing-field"}
    assert admin.stored == 0


@pytest.mark.parametrize("text", ["'; DROP TABLE bookings --", '"><script>alert(1)</script>', "größer 🎓"])
def test_strange_names_are_refused_and_change_nothing(admin: Served, text: str) -> None:
    problem(admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK | {"node": text}), 422)
    problem(admin.ask("POST", f"{ADMIN}/blocks", json=BLOCK | {"model": text}), 422)
    problem(admin.ask("POST", f"{ADMIN}/exemptions", json=EXEMPTION | {"limits": {text: 1}}), 422)
    assert admin.stored == 0


def test_a_duplicate_key_inside_a_field_is_refused(admin: Served) -> None:
    body = (
        '{"user": "bob", "start": "2026-03-02T09:00:00Z", "end": "2026-04-02T00:00:00Z", "reason": "r",'
        ' "limits": {"longest": "P21D", "longest": "P99D"}}'
    )
    answer = admin.ask("POST", f"{ADMIN}/exemptions", data=body, content_type="application/json")

    assert rules(problem(answer, 400)) == ["duplicated-field"]
    assert admin.stored == 0
