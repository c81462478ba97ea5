"""A booking server whose people sign in by a provider: a process of its own, before a real API server."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import urllib3
from playwright.sync_api import BrowserContext, Page

from cluster import names
from cluster.fake.clock import eventually
from cluster.objects.inventory import encode_inventory
from devcluster.cluster import Cluster
from devcluster.paths import CHECKOUT
from devcluster.product import chart
from tests.booking.server.web.login.entrance import CLIENT, free_port
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import a100

NODE = "node-a"
RESOURCE = CHECKOUT / "charts" / names.PRODUCT / "files" / "bookings.yaml"
HTTP = urllib3.PoolManager(retries=False)


def prepare(cluster: Cluster) -> None:
    """What the server finds: the kinds of objects, its namespace, and four GPUs."""
    cluster.kubectl("apply", "--server-side", "-f", str(RESOURCE))
    chart.await_established(cluster, f"crd/bookings.{names.DOMAIN}")
    cluster.kubectl("create", "namespace", names.NAMESPACE)
    inventory = encode_inventory(tuple(a100(index, NODE) for index in range(4)))
    cluster.kubectl("annotate", "node", NODE, f"{names.INVENTORY}={inventory}")


@dataclass(frozen=True)
class Site:
    """A running server."""

    url: str
    probes: str
    folder: Path

    @property
    def database(self) -> Path:
        """Its file."""
        return self.folder / "bookings.db"

    @property
    def log(self) -> str:
        """All that it has written."""
        return (self.folder / "log").read_text(encoding="utf-8")

    def get(self, path: str) -> str:
        """An answer of its probes."""
        return HTTP.request("GET", self.probes + path).data.decode()

    def is_ready(self) -> bool:
        """Whether it is."""
        try:
            return HTTP.request("GET", f"{self.probes}/readyz", timeout=2).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def end_sessions(self) -> None:
        """Let time pass over every session: they ended an hour ago."""
        with closing(sqlite3.connect(self.database, timeout=60)) as database, database:
            assert database.execute("UPDATE sessions SET expires = expires - 86400").rowcount > 0


@contextmanager
def site(cluster: Cluster, folder: Path, issuer: str) -> Iterator[Site]:
    """A server, ready."""
    port, probes = free_port(), free_port()
    made = Site(f"http://localhost:{port}", f"http://127.0.0.1:{probes}", folder)
    for name, text in (("token", cluster.administrator_token), ("client-secret", "any")):
        (folder / name).write_text(text)
    given = {
        "host": "127.0.0.1",
        "port": str(port),
        "probe_host": "127.0.0.1",
        "probe_port": str(probes),
        "database": f"sqlite:///{made.database}",
        "public_url": made.url,
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": str(folder / "client-secret"),
        "kube_server": cluster.api_server,
        "kube_ca_file": str(cluster.ca_file),
        "kube_token_file": str(folder / "token"),
        "log_level": "debug",
    }
    with (folder / "log").open("wb") as log, _running(given, log.fileno()):
        eventually(made.is_ready, deadline=PATIENCE)
        yield made


@contextmanager
def _running(settings: Mapping[str, str], log: int) -> Iterator[None]:
    environment = {names.setting(name): value for name, value in settings.items()}
    with subprocess.Popen(
        [sys.executable, "-m", "booking.server"],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], **environment},
        stdout=log,
        stderr=log,
    ) as process:
        try:
            yield
        finally:
            process.terminate()


class Guest:
    """Somebody with a browser of their own."""

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.page: Page = context.new_page()
        self._site = site
        # The provider's page would fetch its style sheet from elsewhere.
        context.route(lambda url: "localhost" not in url and "127.0.0.1" not in url, lambda it: it.abort())

    def go(self, path: str) -> None:
        """To a page."""
        self.page.goto(self._site.url + path)

    def fill_in(self, sub: str) -> None:
        """The provider's form."""
        self.page.locator("input[name=sub]").fill(sub)
        self.page.get_by_role("button", name="Authorize", exact=True).click()

    def sign_in(self, sub: str, then: str = "/mine") -> None:
        """From a page of ours to the provider, and back."""
        self.go(then)
        self.fill_in(sub)
        self.page.wait_for_url(self._site.url + then)
