"""What each part really loads: its composition root is built in a process of its own, and asked.

A library that a part has no use for costs memory on every node, and is one more to keep safe.
"""

import importlib.metadata
import json
import subprocess
import sys
from collections.abc import Mapping

import pytest

from cluster import names
from tests.architecture.checkout import PACKAGES, ROOT

KUBE = {
    "kube_server": "http://127.0.0.1:9",
    "kube_ca_file": "{folder}/token",
    "kube_token_file": "{folder}/token",
}
PROBES = {"probe_host": "127.0.0.1", "probe_port": "0"}
ROOTS: Mapping[str, tuple[str, str, dict[str, str]]] = {
    "node agent": (
        "deviceplugin.__main__",
        "deviceplugin.settings.Settings",
        {
            "node_name": "node-a",
            "host": "127.0.0.1",
            "port": "0",
            "kubelet_root": "{folder}",
            "device_plugins": "{folder}",
        },
    ),
    "extender": ("extender.__main__", "extender.settings.Settings", {"port": "0", **PROBES}),
    "booking server": (
        "booking.server.__main__",
        "booking.server.settings.ServerSettings",
        {"host": "127.0.0.1", "port": "0", "database": "sqlite:///{folder}/bookings.db", **PROBES},
    ),
    "controller": (
        "booking.controller.__main__",
        "booking.controller.settings.ControllerSettings",
        {"webhook_host": "127.0.0.1", "webhook_port": "0", **PROBES},
    ),
}
"""Part -> its composition root, its settings, and what they are."""

OFFICIAL_CLIENT = {"kubernetes", "pydantic", "requests", "yaml"}
"""The official Kubernetes client and what it brings."""
NOBODY = {"IPython", "aiohttp", "fastapi", "httpx", "sqlalchemy", *OFFICIAL_CLIENT}
WEB = {"flask", "jinja2", "werkzeug"}
DATABASE = {"peewee", "playhouse", "psycopg", "sqlite3"}
TLS = {"cryptography", "uvicorn"}
NODE = {"grpc", "google.protobuf", "pynvml"}
TESTING = {"cluster.fake", "demo", "devcluster", "hypothesis", "pytest", "tests", "unittest.mock"}
FORBIDDEN = {
    "node agent": NOBODY | WEB | DATABASE | TLS | TESTING | {"booking", "extender", "cluster.cache"},
    "extender": (NOBODY - OFFICIAL_CLIENT) | DATABASE | TLS | NODE | TESTING | {"booking", "deviceplugin"},
    # It reads the signatures of an identity provider.
    "booking server": (NOBODY - OFFICIAL_CLIENT)
    | (TLS - {"cryptography"})
    | NODE
    | TESTING
    | {"booking.controller.admission", "booking.controller.reclaimer", "deviceplugin", "extender"},
    "controller": (NOBODY - OFFICIAL_CLIENT)
    | WEB
    | DATABASE
    | NODE
    | TESTING
    | {"booking.server.store", "booking.server.web", "deviceplugin", "extender"},
}
BARE = """
import importlib, inspect, json, os, sys
class NotInTheImage:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)
absent = set(json.loads(sys.argv[1]))
sys.meta_path.insert(0, NotInTheImage())
"""
PROGRAM = (
    BARE
    + """
from cluster.process.clock import SystemClock
from cluster.process.settings import load
root, _, name = sys.argv[3].rpartition(".")
settings = load(getattr(importlib.import_module(root), name), os.environ)
build = importlib.import_module(sys.argv[2]).build
environ = [os.environ] if "environ" in inspect.signature(build).parameters else []
process = build(settings, *environ, SystemClock())
process.end("seen")
code = process.run()
print(json.dumps(sorted(sys.modules)))
sys.exit(code)
"""
)
DEMO = (
    BARE
    + """
from cluster.process.clock import SystemClock
from demo.run import Options, build, folder_of
with folder_of(None) as folder:
    shown = build(Options(port=0, nodes=1, empty=True, keep=None, zone="UTC"), folder, SystemClock())
    shown.process.end("seen")
    sys.exit(shown.process.run())
"""
)


@pytest.fixture(scope="module", params=ROOTS)
def part(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def loaded(part: str, tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """Modules of a part that was built with what its image holds, and ended in good order."""
    folder = tmp_path_factory.mktemp("part")
    (folder / "token").write_text("t")
    module, settings, given = ROOTS[part]
    environment = {
        names.setting(field): value.format(folder=folder) for field, value in {**KUBE, **given}.items()
    }
    image = {"node agent": "deviceplugin", "extender": "extender"}.get(part, "booking")
    printed = run_with(image, PROGRAM, module, settings, **environment)
    return frozenset(json.loads(printed.splitlines()[-1]))


def run_with(lock: str, program: str, *words: str, **environment: str) -> str:
    """Run a program as if nothing were installed but what a lock brings; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(sorted(not_brought_by(lock))), *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_part_loads_no_module_that_it_does_not_use(part: str, loaded: frozenset[str]) -> None:
    assert found(FORBIDDEN[part], loaded) == set()


def test_the_demo_needs_nothing_but_what_its_extra_installs() -> None:
    run_with("demo", DEMO)


def found(forbidden: set[str], loaded: frozenset[str]) -> set[str]:
    """Those of some modules and rooms that are loaded."""
    return {name for name in forbidden if any(f"{module}.".startswith(f"{name}.") for module in loaded)}


def not_brought_by(lock: str) -> set[str]:
    """Modules that are installed here, and that a lock does not bring."""
    lines = (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines()
    locked = {line.split("==")[0] for line in lines if "==" in line and not line.startswith(" ")}
    return {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if module not in PACKAGES and not {owner.lower().replace("_", "-") for owner in owners} & locked
    }
