"""Every string with our prefix, and every other that crosses a process, stands once: in cluster/names.py."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import names
from tests.architecture.checkout import PACKAGES, ROOT, name_of, python_of, texts, tracked, tree_of
from tests.architecture.strings import strings_in

HOME = ROOT / "cluster" / "names.py"
VALUES = {name: value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
PREFIXES = (names.PRODUCT, names.METRICS_PREFIX, names.SETTINGS_PREFIX, names.NVIDIA_PREFIX)
OURS = re.compile("|".join(map(re.escape, (*PREFIXES, names.NODE_LEASE_PREFIX))))
KEY = re.compile(rf"{re.escape(names.DOMAIN)}/(?!v\d)[a-z]")
"""A key below our domain; ``gpu-booking.io/v1`` is the version of an API."""

# What stands for many things in a test (a namespace, an audience, a folder), or for nothing without more.
COMMON_PLACE = {names.PRODUCT, names.COMEBACK_PREFIX, names.DISRUPTION_TARGET, *PREFIXES}
OWN_WORDS = frozenset(VALUES.values()) - COMMON_PLACE
"""What no test says itself."""
BOUND_FOR_THE_SCHEDULER = {
    f"{names.PRODUCT}-volume-scheduler",
    f"{names.SCHEDULER_ACCOUNT}-authentication-reader",
}
"""Bindings of the chart that nobody asks for by name."""
OF_EVENTS = {f"{names.NODE_AGENT}-events"}
"""The node agent's role in the namespace of Events about Nodes, and its binding."""
OF_ADMINISTRATORS = {f"{names.PRODUCT}-administrator"}
"""The role of those whom a site names, and its binding."""
OF_KIND = "kind/up.sh"
"""What it says to programs is compared with names by tests/kind/test_script.py."""
OF_CERT_MANAGER = {f"{names.WEBHOOK_KEYS}-root", f"{names.WEBHOOK_KEYS}-authority"}
"""Its objects that sign the certificate; the parts know the last Secret alone."""
OF_MAIA = {f"{names.PRODUCT}-pod-terminator", f"{names.PRODUCT}-maia"}
"""The NetworkPolicy before the door that MAIA's tools use, and the Secret with MAIA's token."""
OF_MONITORING = {f"{names.PRODUCT}-dashboard", f"{names.PRODUCT}.json", f"{names.PRODUCT}-."}
"""The ConfigMap for Grafana, its file, and how the names of our pods begin; tests/charts/test_monitoring.py
compares names of metrics with what the parts register."""
OF_PODS = {
    *(f"{names.PRODUCT}-{what}" for what in ("database", "policy", "extender-client", "scheduler-extender")),
}
"""What the pods of the chart are made of: a claim, a ConfigMap, a Secret, a binding."""
MOUNTED = (f"/etc/{names.PRODUCT}/", f"/etc/kubernetes/{names.PRODUCT}/", f"/var/lib/{names.PRODUCT}")
"""Where the chart's pods, and the cluster's own kube-scheduler, find their files;
tests/long/charts/test_pods_rendered.py loads what the settings say."""
OF_THE_API = {f"{names.DOMAIN}/v1"}
"""Group and version of our custom resource, as objects say them."""
GUARDED = (
    *("binders", "binding-state", "class-users", "classes", "comebacks", "gpu-pods", "namespaces", "orders"),
    *("node-agents", "node-state", "pod-state", "queue", "server-nodes", "visible-devices"),
    *("bookings", "controller-writes", "leases", "unseen-pods"),
)
POLICIES = {f"{names.PRODUCT}-{what}" for what in GUARDED}
"""Policies of the chart: the API server alone says their names, where it refuses."""
DOMAINS = {"DOMAIN", "STATE_DOMAIN"}
KNOW_THE_DOMAIN = {"booking/web/problems.py", "booking/web/roles.py", "cluster/kube/resources.py"}
"""They name a kind of problem, a right, and the group of an API: none is a key."""


def strays_of_the_product(tree: ast.Module) -> Iterator[str]:
    """Strings of shipped code and of devcluster that should stand in names.py."""
    for line, value in strings_in(tree):
        if OURS.search(value) or value in VALUES.values():
            yield f"{line}: {value!r}"
    yield from new_keys(tree)


def strays_of_a_test(tree: ast.Module) -> Iterator[str]:
    """The same of tests, which say settings and metrics as an administrator types them, and invent keys."""
    for line, value in strings_in(tree):
        if names.DOMAIN in value or value in OWN_WORDS:
            yield f"{line}: {value!r}"


def new_keys(tree: ast.Module) -> Iterator[str]:
    """Keys that are put together from our domain where nobody looks for them."""
    domains = {name: VALUES[name] for name in ("DOMAIN", "STATE_DOMAIN", "PRODUCT")}
    for line, value in strings_in(tree, domains):
        if KEY.search(value):
            yield f"{line}: {value!r} is a key: give it a name in cluster/names.py"


def test_shipped_code_and_the_developers_cluster_say_no_name_of_ours_themselves() -> None:
    strays = [
        f"{name_of(path)}:{stray}"
        for path in python_of(*PACKAGES, "docs", "proto")
        if path != HOME
        for stray in strays_of_the_product(tree_of(path))
    ]
    assert not strays


def test_tests_take_keys_and_names_from_names() -> None:
    strays = [
        f"{name_of(path)}:{stray}" for path in python_of("tests") for stray in strays_of_a_test(tree_of(path))
    ]
    assert not strays


PIECES = {
    "a literal": "x = 'state.{domain}/hold'",
    "an f-string": "x = f'state.{domain}/{{y}}'",
    "a sum": "x = '{product}' + '.io/hold'",
    "a sum of an f-string": "x = f'{product}' + f'.io/{{y}}'",
    "a sum with a name": "x = names.STATE_DOMAIN + '/hold'",
    "an f-string with a name": "x = f'{{names.DOMAIN}}/hold'",
    "a joined list": "x = ''.join(['{product}', '.io', '/hold'])",
    "an old format": "x = '{domain}/%s' % y",
    "what an old format puts in": "x = '%s/hold' % 'state.{domain}'",
    "bytes": "x = b'state.{domain}/hold'",
    "within a call": "f(a['{domain}/hold'])",
}


@pytest.mark.parametrize("code", PIECES.values(), ids=PIECES.keys())
def test_a_key_is_found_however_it_is_put_together(code: str) -> None:
    text = code.format(domain=names.DOMAIN, product=names.PRODUCT)
    assert list(strays_of_the_product(ast.parse(text)))
    assert list(strays_of_a_test(ast.parse(text))) or "names." in text


def test_nobody_else_has_the_domain_at_hand_to_make_a_key_of_it_when_it_runs() -> None:
    """Behind another name, or filled into a format, ``names.DOMAIN`` shows nobody the key."""
    users = {name_of(path) for path in python_of(*PACKAGES, "docs") if path != HOME and has_a_domain(path)}
    assert users == KNOW_THE_DOMAIN


def has_a_domain(path: Path) -> bool:
    nodes = list(ast.walk(tree_of(path)))
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return bool(DOMAINS & (read | {node.name for node in nodes if isinstance(node, ast.alias)}))


@pytest.mark.parametrize(
    "name", ["GPU_RESOURCE", "BOOKED_CLASS", "MIRROR_LEASE", "WEBHOOK_SERVICE", "CAME_BACK"]
)
def test_any_other_name_is_found_too(name: str) -> None:
    text = f"x = {VALUES[name]!r}"
    assert list(strays_of_the_product(ast.parse(text)))
    assert list(strays_of_a_test(ast.parse(text)))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_is_made_with_a_prefix_of_ours_is_found_in_the_product(prefix: str) -> None:
    assert list(strays_of_the_product(ast.parse(f"x = '{prefix}something'")))


@pytest.mark.parametrize(
    "code", ['"""{domain}/hold"""', "x = names.HOLD", "x = f'{{names.HOLD}}=1'", "x = 'held'"]
)
def test_prose_and_uses_of_names_are_no_strays(code: str) -> None:
    text = code.format(domain=names.DOMAIN)
    assert not list(strays_of_the_product(ast.parse(text)))


def test_every_name_of_ours_in_another_language_stands_in_names() -> None:
    """The chart, and what is written in C and Go, in whole; of all the rest what is of our domain."""
    token = re.compile(rf"[\w./-]*(?:{OURS.pattern}|gpu-booked|gpu-opportunistic)[\w./-]*")
    known = {*VALUES.values(), f"bookings.{names.DOMAIN}", f"{names.STATE_DOMAIN}/", *BOUND_FOR_THE_SCHEDULER}
    known |= (
        OF_ADMINISTRATORS
        | POLICIES
        | OF_CERT_MANAGER
        | OF_MAIA
        | OF_MONITORING
        | OF_EVENTS
        | OF_PODS
        | OF_THE_API
    )
    strays = {
        f"{name}: {found}"
        for name, text in texts()
        if Path(name).suffix not in {".md", ".py"}
        for found in token.findall(without_prose(text))
        if found.strip(".-") not in known and found not in known
        if (is_read_by_others(name) and name != OF_KIND) or names.DOMAIN in found
        if not found.startswith((f"{names.METRICS_PREFIX}_", names.SETTINGS_PREFIX, *MOUNTED))
    }
    assert not strays


def test_the_chart_gives_pods_the_classes_and_the_webhook_that_are_named() -> None:
    chart = "".join(without_prose(text) for name, text in texts() if name.startswith("charts/"))
    for name in (names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS, names.WEBHOOK, names.WEBHOOK_ENTRY):
        assert f"name: {name}\n" in chart


def test_every_name_is_used_and_said_once() -> None:
    code = "\n".join(path.read_text() for path in python_of(*PACKAGES, "tests"))
    inside = HOME.read_text()
    unused = [name for name in VALUES if f"names.{name}" not in code and inside.count(name) < 2]
    assert not unused


def is_read_by_others(name: str) -> bool:
    """Whether a file is of the chart, or code in another language than Python."""
    return name.startswith("charts/") or Path(name).suffix in {".c", ".h", ".go", ".proto", ".sh"}


def without_prose(text: str) -> str:
    """A chart or a program without comments and names of its own templates."""
    text = re.sub(r"\{\{-?/\*.*?\*/-?\}\}|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"(^|\s)(#|//)[ !].*", "", text)
    text = re.sub(r"\b(include|define|template) +\"[^\"]*\"", "", text)
    return re.sub(r"^(module|import|package) .*", "", text, flags=re.MULTILINE)


def test_files_of_every_kind_are_looked_at() -> None:
    suffixes = {path.suffix for path in tracked() if is_read_by_others(name_of(path))}
    assert suffixes >= {".yaml", ".tpl", ".c", ".go", ".proto"}
