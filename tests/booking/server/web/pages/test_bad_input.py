"""Malicious input in every field of forms and queries: the page refuses it and stores nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.booking.server.web.pages.site import Site, page_text, token
from tests.booking.server.web.test_harm import HARM, HTML
from tests.databases import EACH_KIND, a_database
from tests.fakes.objects import A100

BAD = [*HARM, "a\r\nX-Evil: 1", "\ud800", "9" * 5000, "\x00"]
QUERIES = (
    ("/", ("model", "start", "amount", "unit", "count", "namespace", "topology", "open", "from", "check")),
    ("/book", ("model", "start", "amount", "unit", "count", "namespace", "topology")),
    ("/inside", ("model", "from")),
    ("/mine", ("booked", "stored", "past", "skip")),
    ("/mine", ("continue", "instead")),
    ("/now", ("node", "model", "standing", "mine", "page", "version")),
    ("/why", ("namespace", "pod")),
    ("/admin", ("done", "continue")),
    ("/admin/exemptions", ("continue",)),
    ("/admin/bookings", ("continue",)),
    ("/admin/audit", ("continue",)),
    ("/admin/denied", ("continue",)),
)
"""Addresses, and parameters that they take together."""
SPAN = {"start": "2026-03-05T10:00", "end": "2026-03-07T10:00"}
BOOK = {"model": A100, "count": "1", "start": SPAN["start"], "amount": "2", "unit": "days", "namespace": "a"}
FORMS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "/": (BOOK, ("model", "count", "start", "amount", "unit", "namespace")),
    "/admin": (
        {"node": "node-a", "model": A100, "count": "1", "reason": "why not", **SPAN},
        ("node", "model", "count", "start", "end"),
    ),
    "/admin/exemptions": (
        {"user": "bob", "limits": "longest: P20D", "reason": "why not", **SPAN},
        ("limits", "start", "end"),
    ),
    "/admin/pods/evict": (
        {"namespace": "research", "pod": "train-0", "reason": "why not"},
        ("namespace", "pod"),
    ),
}
"""Address -> a form that it accepts, and those of its fields that do not accept just any text."""


@pytest.fixture
def admin(site: Site) -> Site:
    """Alice is an administrator."""
    site.signing_in.administrators.add("alice")
    return site


def sent(fields: dict[str, str]) -> dict[str, bytes]:
    """As a browser sends it, or worse."""
    return {name: text.encode("utf-8", "surrogatepass") for name, text in fields.items()}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_no_text_of_a_query_does_harm(admin: Site, text: str) -> None:
    for address, fields in QUERIES:
        for headers in ({}, {"HX-Request": "true"}):
            query: Any = sent(dict.fromkeys(fields, text))
            answer = admin.see(address, query_string=query, headers=headers)
            assert answer.status_code in {200, 303, 400, 404, 422}, (address, page_text(answer))
            assert HTML not in answer.text
            assert "X-Evil" not in answer.headers
    assert admin.stored == 0


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_no_text_of_a_form_does_harm(admin: Site, text: str) -> None:
    crumb = token(admin.see("/"))
    for address, (form, fields) in FORMS.items():
        for field in fields:
            answer = admin.send("POST", address, data=sent({"csrf": crumb, **form, field: text}))
            assert answer.status_code in {400, 404, 422}, (address, field, page_text(answer))
            assert HTML not in answer.text
    assert admin.stored == 0
    assert admin.evictions.orders == []


NUL = "\0"
"""PostgreSQL cannot store it, and refuses a statement that holds one."""


@pytest.fixture(params=EACH_KIND)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site on each database; alice is an administrator."""
    made = Site(tmp_path, url=a_database(request.param, tmp_path))
    made.signing_in.administrators.add("alice")
    yield made
    made.store.close()


def test_a_text_that_the_database_cannot_store_is_not_reported_as_a_database_failure(kept: Site) -> None:
    crumb = {"csrf": token(kept.see("/"))}
    for address, (form, _) in FORMS.items():
        for field in form:
            answer = kept.send("POST", address, data={**crumb, **form, field: f"a{NUL}b"})
            assert answer.status_code in {404, 422}, (address, field, page_text(answer))
    ending = {**crumb, "reason": "why not", "version": NUL, "start": NUL, "end": NUL, "count": NUL}
    for address in ("/mine/%00/release", "/mine/%00/move", "/mine/%00/take"):
        assert kept.send("POST", address, data=ending).status_code == 404
    for address in ("/admin/blocks/%00/remove", "/admin/exemptions/%00/remove", "/admin/bookings/%00/end"):
        assert kept.send("POST", address, data=ending).status_code == 422
    for method, address in (
        ("GET", "bookings/%00"),
        ("DELETE", "bookings/%00?dry_run=true"),
        ("POST", "bookings/a%00/release"),
        ("DELETE", "admin/blocks/%00"),
        ("DELETE", "admin/exemptions/%00?dry_run=true"),
    ):
        body = None if method == "GET" else {"reason": "why not"}
        answer = kept.send(method, f"/api/v1/{address}", json=body)
        assert answer.status_code == 404, (address, answer.text)
    assert kept.see("/mine?booked=%00").status_code == 404
    assert kept.stored == 0
    assert kept.evictions.orders == []


def test_a_form_of_ten_megabytes_is_refused(site: Site) -> None:
    form = {"csrf": token(site.see("/")), **BOOK, "namespace": "x" * 10_000_000}
    assert site.send("POST", "/", data=form).status_code == 413
    assert site.stored == 0
