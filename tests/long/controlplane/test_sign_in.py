"""People sign in by a provider, in a browser, to a server that is a process of its own, and stay or go."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from cluster import names
from devcluster.cluster import Cluster
from devcluster.spec import ClusterSpec, NodeSpec
from tests.booking.server.web.login.entrance import Idp, provider
from tests.browser.visitor import DESK, PATIENCE, PHONE, chromium, findings, width_of
from tests.clusters import own
from tests.long.controlplane.signing_in import NODE, Guest, Site, prepare, site

pytestmark = pytest.mark.controlplane
expect.set_options(timeout=PATIENCE)
ADDRESS = "alice.liddell@example.org"


class Guests:
    """Browsers that know nothing of each other."""

    def __init__(self, browser: Browser, running: Site) -> None:
        self._browser, self._site = browser, running
        self._contexts: list[BrowserContext] = []

    def new(self) -> Guest:
        context = self._browser.new_context(viewport={"width": DESK.width, "height": DESK.height})
        context.set_default_timeout(PATIENCE)
        self._contexts.append(context)
        return Guest(context, self._site)

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("signin"), nodes=(NodeSpec(name=NODE),))) as running:
        prepare(running)
        yield running


@pytest.fixture(scope="module")
def idp() -> Iterator[Idp]:
    with provider() as (running, _):
        running.put("alice", email=ADDRESS, email_verified=True)
        yield running


@pytest.fixture(scope="module")
def running(cluster: Cluster, idp: Idp, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(cluster, tmp_path_factory.mktemp("site"), idp.issuer) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def guests(browser: Browser, running: Site) -> Iterator[Guests]:
    made = Guests(browser, running)
    yield made
    made.close()


def title(page: Page, text: str) -> None:
    expect(page.locator("h1")).to_have_text(text)


def test_alice_signs_in_books_and_signs_out_and_her_address_is_seen_nowhere(
    cluster: Cluster, running: Site, guests: Guests
) -> None:
    alice = guests.new()
    alice.sign_in("alice")
    expect(alice.page.locator(".who")).to_contain_text("alice")
    alice.go("/")
    alice.page.get_by_role("button", name="Book", exact=True).click()
    title(alice.page, "My bookings")
    expect(alice.page.locator(".note")).to_contain_text("It is guaranteed from now on")

    bob = guests.new()
    bob.sign_in("bob", "/")
    seen = {"/": bob.page.content()}
    for path in ("/now", "/mine", "/api/v1/bookings", "/api/v1/availability", "/api/v1/now", "/api/v1/me"):
        bob.go(path)
        seen[path] = bob.page.content()
    kinds = f"bookings.{names.DOMAIN},nodes,events,leases,configmaps,secrets"
    seen["the cluster"] = cluster.kubectl("get", kinds, "-A", "-o", "json")
    assert '"user": "alice"' in seen["the cluster"]
    seen |= {"her page": alice.page.content(), "the log": running.log, "metrics": running.get("/metrics")}
    for word in (ADDRESS, ADDRESS.partition("@")[0]):
        assert [where for where, text in seen.items() if word in text] == []
    assert any(ADDRESS.encode() in each.read_bytes() for each in running.folder.glob("bookings.db*"))

    alice.page.get_by_role("button", name="Sign out").click()
    title(alice.page, "Signed out")
    alice.go("/mine")
    expect(alice.page.locator("input[name=sub]")).to_be_visible()
    alice.page.go_back()
    alice.page.get_by_role("link", name="Sign in").click()
    alice.fill_in("alice")
    title(alice.page, "Availability")


def test_a_user_who_comes_back_with_another_state_or_nonce_is_not_signed_in(
    running: Site, guests: Guests
) -> None:
    for word in ("state", "nonce"):
        guest = guests.new()
        guest.go("/mine")
        expect(guest.page.locator("input[name=sub]")).to_be_visible()
        guest.page.goto(re.sub(rf"{word}=[^&]+", f"{word}=another", guest.page.url))
        guest.fill_in("alice")
        title(guest.page, "You are not signed in")
        assert findings(guest.page) == []
        assert guest.page.context.cookies(running.url) == []

        guest.page.get_by_role("link", name="Sign in").click()
        guest.fill_in("alice")
        title(guest.page, "Availability")


def test_a_form_without_its_token_changes_nothing(guests: Guests) -> None:
    guest = guests.new()
    guest.sign_in("bob", "/")
    guest.page.locator("form[action='/'] input[name=csrf]").evaluate("field => field.value = 'forged'")
    guest.page.get_by_role("button", name="Book", exact=True).click()
    title(guest.page, "The form was too old")
    guest.go("/mine")
    expect(guest.page.locator("article")).to_have_count(0)


def test_a_form_after_the_end_of_a_session_leads_to_the_provider_and_is_sent_then(
    running: Site, guests: Guests
) -> None:
    guest = guests.new()
    guest.sign_in("bob", "/")
    running.end_sessions()
    guest.page.get_by_role("button", name="Book", exact=True).click()
    title(guest.page, "You are not signed in any more")
    assert findings(guest.page) == []
    guest.page.get_by_role("link", name="Sign in").click()
    guest.fill_in("bob")
    title(guest.page, "My bookings")
    expect(guest.page.locator("article")).to_have_count(1)


def test_while_the_provider_is_unresponsive_users_stay_signed_in_and_nobody_can_sign_in(
    idp: Idp, guests: Guests
) -> None:
    alice, bob = guests.new(), guests.new()
    alice.sign_in("alice")
    bob.go("/mine")
    back = idp.sign_in(bob.page.url, "bob")
    with idp.silent():
        bob.page.goto(back)
        title(bob.page, "Not now")
        expect(bob.page.locator("main")).to_contain_text("The identity provider cannot be asked now.")
        assert findings(bob.page) == []
        alice.go("/now")
        expect(alice.page.locator(".who")).to_contain_text("alice")
    bob.sign_in("bob")


def test_the_login_page_is_accessible(guests: Guests) -> None:
    guest = guests.new()
    guest.go("/login?out=1")
    for scheme, screen in (("light", DESK), ("dark", PHONE)):
        guest.page.emulate_media(color_scheme=scheme)
        guest.page.set_viewport_size({"width": screen.width, "height": screen.height})
        assert findings(guest.page) == []
        assert width_of(guest.page) <= screen.width
