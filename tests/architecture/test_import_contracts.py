"""The import contracts are kept, are said in ARCHITECTURE.md, and leave no room and no library out."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, SHIPPED, name_of, python_of, tree_of

ANYBODY = {"_typeshed", "msgspec", "prometheus_client", "structlog"}
"""Libraries of which every room may make use."""
MANY = 10
"""With so many modules a room has layers, as has every room with rooms in it; small ones have no circles."""
FREE = {"booking.rules"}
"""Its modules know nothing of each other: a new one has no place among them to be given."""
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
FILES = ("contracts.toml", "contracts-booking.toml", "libraries.toml")
LINTERS: list[dict[str, Any]] = [
    tomllib.loads((ROOT / name).read_text())["tool"]["importlinter"] for name in FILES
]
CONTRACTS: list[dict[str, Any]] = [contract for linter in LINTERS for contract in linter["contracts"]]


def lint(root: Path, file: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--no-logo", "--config", file],
        cwd=root,
        env={**os.environ, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("file", FILES)
def test_the_contracts_are_kept(file: str) -> None:
    done = lint(ROOT, file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_architecture_document_describes_every_contract() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Import contracts")[1].split("## Laws")[0]
    described = [" ".join(each.split()).rstrip(".") for each in section.split("\n- ")[1:]]
    assert described == [contract["name"] for contract in CONTRACTS]


def test_every_package_of_the_checkout_is_checked() -> None:
    assert [set(linter["root_packages"]) for linter in LINTERS] == [set(PACKAGES)] * len(FILES)
    assert set(SETTINGS["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(SHIPPED)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages == set(PACKAGES)


def large_rooms(*packages: str) -> set[str]:
    """Rooms with rooms in them, and those with many modules: where order is worth a contract."""
    modules = [path for path in python_of(*packages) if path.name != "__init__.py"]
    rooms = [path.parent for path in python_of(*packages) if path.name == "__init__.py"]
    sizes = Counter(path.parent for path in modules)
    with_rooms = {room.parent for room in rooms if room.parent != ROOT}
    found = {*with_rooms, *(room for room in rooms if sizes[room] >= MANY)}
    return {name_of(room).replace("/", ".") for room in found} - FREE


PLACED = {
    container
    for contract in CONTRACTS
    if contract["type"] == "layers" and contract.get("exhaustive")
    for container in contract["containers"]
}
"""Rooms with layers that are exhaustive."""


def test_every_room_with_rooms_or_many_modules_has_exhaustive_layers() -> None:
    assert large_rooms(*PACKAGES) - PLACED == set()
    assert set(PACKAGES) - PLACED == set()


def test_large_rooms_are_found_by_the_rooms_and_by_the_modules_in_them() -> None:
    assert {"booking.web", "cluster", "cluster.objects", "deviceplugin.nvml"} <= large_rooms(*PACKAGES)
    assert "cluster.decide.eviction" not in large_rooms(*PACKAGES)


def test_only_large_rooms_whose_modules_are_independent_have_no_layers() -> None:
    apart = {
        module.removesuffix(".*")
        for contract in CONTRACTS
        if contract["type"] == "independence"
        for module in contract["modules"]
        if module.endswith(".*")
    }
    assert apart == FREE


def test_a_contract_says_which_rooms_may_import_each_library() -> None:
    placed = {
        library
        for contract in CONTRACTS
        if contract["type"] == "protected"
        for library in contract["protected_modules"]
    }
    known = {*sys.stdlib_module_names, *PACKAGES, *ANYBODY, *placed}
    homeless = {
        f"{name_of(path)}: {library}"
        for path in python_of(*PACKAGES)
        for library in {module.split(".")[0] for module in imported(path)}
        if library not in known
    }
    assert not homeless


def imported(path: Path) -> set[str]:
    """Modules that a file imports, wherever in it."""
    nodes = list(ast.walk(tree_of(path)))
    whole = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return whole | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


NEWCOMERS = (
    *(f"{room.replace('.', '/')}/surprise.py" for room in sorted(large_rooms(*PACKAGES) | PLACED)),
    "booking/rooms/__init__.py",
    "cluster/kube/rooms/__init__.py",
)
"""What nobody has placed."""
CLIMBS = (
    ("extender/verbs/filter.py", "extender.binding.bind", "Inside the extender"),
    ("extender/verbs/preempt.py", "extender.verbs.prioritize", "Verbs know nothing"),
    ("extender/binding/bind_decision.py", "extender.binding.bind", "Inside extender.binding"),
    ("extender/state/node_sets.py", "extender.state.cluster_state", "Inside extender.state"),
    ("booking/evaluation/proposals.py", "booking.evaluation.evaluate", "Inside booking.evaluation"),
    ("booking/policy_file.py", "booking.evaluation.evaluate", "Errors, store and"),
    ("booking/evaluation/request_validation.py", "booking.rules", "A request is read without"),
    ("extender/http_server/server.py", "extender.verbs.filter", "The extender's HTTP server"),
    ("booking/rules/shortest.py", "booking.rules.longest", "Rules of booking"),
    ("booking/admission/review.py", "booking.reclaimer.planning.plan", "Inside booking, the web"),
    ("booking/reclaimer/planning/plan.py", "booking.store", "The controller knows nothing"),
    (
        "booking/reclaimer/planning/plan.py",
        "booking.reclaimer.holds.hold_controller",
        "Inside booking.reclaimer, a",
    ),
    (
        "booking/reclaimer/reservations/state_table.py",
        "booking.reclaimer.reservations.reservations",
        "Inside booking.reclaimer.reservations",
    ),
    (
        "booking/reclaimer/fair_shares/taking.py",
        "booking.reclaimer.fair_shares.turns",
        "Inside booking.reclaimer.fair_shares",
    ),
    ("booking/fair_shares/standing.py", "booking.fair_shares.queue", "Inside booking.fair_shares"),
    ("booking/policy/limits.py", "booking.policy.policy", "Inside booking.policy"),
    ("booking/cli/commands/queue.py", "booking.cli.commands.status", "Commands of the command line"),
    ("booking/store/bookings.py", "booking.store.store", "Inside booking.store"),
    ("booking/server.py", "booking.admission", "The booking server knows nothing"),
    ("cluster/objects/pods.py", "cluster.decide.request", "Inside cluster, the cache"),
    ("cluster/decide/request.py", "cluster.decide.explain", "Inside cluster.decide,"),
    ("cluster/decide/ledger/holdings.py", "cluster.decide.ledger.view", "Inside cluster.decide.ledger"),
    (
        "cluster/decide/fairshare/order.py",
        "cluster.decide.fairshare.legality",
        "Inside cluster.decide.fairshare",
    ),
    (
        "cluster/decide/scheduler_filters/node_ports.py",
        "cluster.decide.scheduler_filters.pod_topology_spread",
        "Inside cluster.decide.scheduler_filters",
    ),
    (
        "cluster/decide/booking_plan/supply.py",
        "cluster.decide.booking_plan.placement_check",
        "Inside cluster.decide.booking_plan",
    ),
    ("cluster/objects/evict_orders.py", "cluster.objects.hold", "Inside cluster.objects"),
    ("cluster/kube/interface.py", "cluster.kube.events", "Inside cluster.kube"),
    ("cluster/cache/node_supply.py", "cluster.cache.booked_nodes", "Inside cluster.cache"),
    ("cluster/process/clock.py", "cluster.process.loops", "Inside cluster.process"),
    ("cluster/fake/kinds.py", "cluster.fake.store", "Inside cluster.fake"),
    ("cluster/decide/node_fit.py", "threading", "Decisions and objects are pure"),
    ("cluster/cache/cover.py", "cluster.cache.cache", "No two modules and no two rooms"),
    ("cluster/cache/cache.py", "cluster.fake", "No part of the product runs"),
    ("cluster/kube/client.py", "kubernetes", "The official Kubernetes client"),
    ("cluster/kube/node_lease.py", "waitress", "Plain HTTP is served"),
    ("cluster/kube/node_lease.py", "httptools", "kube-scheduler's requests are parsed"),
    ("deviceplugin/nvml/watch.py", "pynvml", "NVML is spoken"),
    ("booking/reclaimer/planning/plan.py", "cel_expr_python", "Expressions of claims"),
    ("deviceplugin/advertised.py", "deviceplugin.plugin", "Inside the node agent"),
    ("deviceplugin/nvml/health.py", "deviceplugin.nvml.watch", "Inside deviceplugin.nvml"),
    ("deviceplugin/kubelet/channel.py", "deviceplugin.kubelet.pods_api", "Inside deviceplugin.kubelet"),
    ("deviceplugin/usage/holders.py", "deviceplugin.usage.squatters", "Inside deviceplugin.usage"),
    ("deviceplugin/injection/driver.py", "deviceplugin.injection.cdi", "Inside deviceplugin.injection"),
    ("booking/eviction/holder.py", "booking.eviction.holder_cache", "Inside booking.eviction"),
    ("deviceplugin/allocation/drift.py", "deviceplugin.nvml", "Which pod is admitted and which"),
    ("deviceplugin/kubelet/streams.py", "deviceplugin.injection", "The kubelet's side never knows"),
    ("deviceplugin/device_cache.py", "grpc", "gRPC is spoken"),
    ("deviceplugin/allocation/preferred.py", "socket", "Which pod is admitted, what"),
    ("deviceplugin/preparation.py", "peewee", "The node agent stays small"),
    ("booking/service.py", "peewee", "The database is spoken"),
    ("booking/mirror/plan.py", "flask", "Flask is used"),
    ("booking/web/maia.py", "joserfc", "OpenID Connect is spoken"),
    ("booking/web/request_guard.py", "booking.web.app", "Inside booking.web,"),
    (
        "booking/web/pages/calendar_range.py",
        "booking.web.pages.availability_table",
        "Inside booking.web.pages",
    ),
    ("booking/web/rest/idempotency_keys.py", "booking.web.rest.slots", "Inside booking.web.rest"),
    ("booking/web/login/sessions.py", "booking.web.login.session_auth", "Inside booking.web.login"),
    ("booking/service/authorization.py", "booking.service.evaluation", "Inside booking.service"),
    ("booking/cluster_status/viewer.py", "booking.cluster_status.why", "Inside booking.cluster_status"),
    ("booking/availability/start_search.py", "booking.availability.replan", "Inside booking.availability"),
    ("booking/admission/owner.py", "booking.admission.cover_message", "Inside booking.admission"),
    (
        "booking/reclaimer/holds/notice_due.py",
        "booking.reclaimer.holds.barred_nodes",
        "Inside booking.reclaimer.holds",
    ),
    (
        "booking/reclaimer/evictions/comeback.py",
        "booking.reclaimer.evictions.api_calls",
        "Inside booking.reclaimer.evictions",
    ),
    ("booking/cli/time_parsing.py", "booking.cli.server_connection", "Inside booking.cli"),
    ("booking/cli/api.py", "booking.service", "The command line asks"),
    ("booking/evaluation/evaluate.py", "time", "What is right about a booking"),
    ("booking/eviction/victims.py", "subprocess", "What becomes of a pod"),
    ("booking/settings.py", "yaml", "A policy's YAML"),
    ("booking/web/app.py", "uvicorn", "TLS is served"),
    ("extender/http_server/server.py", "a2wsgi", "Plain applications are put behind"),
    ("extender/binding/bind.py", "urllib3", "HTTP to the API server"),
    ("extender/policies/binpack.py", "threading", "Scheduling policies are pure"),
    ("extender/http_server/server.py", "cryptography", "Certificates are made"),
    ("extender/http_server/server.py", "devcluster", "Nothing that is shipped"),
    ("extender/settings.py", "demo", "The parts never import"),
    ("demo/feed.py", "demo.site", "Inside the demo,"),
    ("demo/simulation/loop.py", "demo.simulation.part", "Inside demo.simulation,"),
    ("extender/pending/requeue.py", "deviceplugin", "The parts never import"),
    ("devcluster/spec.py", "devcluster.product", "Inside devcluster,"),
    ("devcluster/product/chart.py", "devcluster.product.existing", "Inside devcluster.product"),
    ("devcluster/demo/context.py", "devcluster.demo.steps", "Inside devcluster.demo"),
    ("devcluster/plan.py", "click", "Words of a command line"),
)
"""A file, what it must not import, and how the contract begins that forbids it."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which every wall is climbed."""
    root = tmp_path_factory.mktemp("climbed")
    for contracts in FILES:
        shutil.copy(ROOT / contracts, root)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, forbidden, _ in CLIMBS:
        with (root / name).open("a") as file:
            file.write(f"\nimport {forbidden}\n")
    return root


@pytest.fixture(scope="module")
def broken_by_climbs(scratch: Path) -> dict[str, str]:
    return {name: wrong for file in FILES for name, wrong in broken(lint(scratch, file)).items()}


@pytest.fixture(scope="module")
def broken_by_newcomers(broken_by_climbs: dict[str, str], scratch: Path) -> str:
    """What is reported of new modules and rooms; ``broken_by_climbs`` has been read before they come."""
    assert broken_by_climbs
    for name in NEWCOMERS:
        (scratch / name).parent.mkdir(exist_ok=True)
        (scratch / name).write_text('"""Nobody has placed this."""\n')
    return "\n".join(wrong for file in FILES for wrong in broken(lint(scratch, file)).values())


def broken(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Name of every broken contract -> what is wrong."""
    assert done.returncode != 0, done.stdout + done.stderr
    parts = re.split(r"^(.+)\n-{5,}\n", done.stdout.split("Broken contracts")[1], flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(
    ("name", "forbidden", "contract"), CLIMBS, ids=[f"{name}-{what}" for name, what, _ in CLIMBS]
)
def test_a_forbidden_import_breaks_the_contract_that_forbids_it(
    broken_by_climbs: dict[str, str], name: str, forbidden: str, contract: str
) -> None:
    (wrong,) = (wrong for known, wrong in broken_by_climbs.items() if known.startswith(contract))
    importer = name.removesuffix(".py").replace("/", ".")
    is_circle = contract.startswith("No two")
    line = (
        f"No cycles are allowed in {importer.rpartition('.')[0]}."
        if is_circle
        else f"{importer} -> {forbidden} "
    )
    assert line in wrong


def test_every_contract_is_broken_by_an_example_here() -> None:
    names = [contract["name"] for contract in CONTRACTS]
    assert [name for name in names if not any(name.startswith(known) for _, _, known in CLIMBS)] == []


@pytest.mark.parametrize("newcomer", NEWCOMERS)
def test_a_module_or_room_without_a_layer_breaks_a_contract(broken_by_newcomers: str, newcomer: str) -> None:
    name = newcomer.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert f"- {name}\n" in broken_by_newcomers


def test_every_imported_module_of_ours_exists() -> None:
    ours = {*PACKAGES, "docs", "tests"}
    missing = {
        f"{name_of(path)}: {module}"
        for path in python_of(*ours)
        for module in imported(path)
        if module.split(".")[0] in ours and not is_there(module)
    }
    assert not missing


def is_there(module: str) -> bool:
    place = ROOT / module.replace(".", "/")
    return place.is_dir() or place.with_suffix(".py").exists()
