"""Every string with our prefix, or that otherwise crosses a process, is written once: in a file of names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import names
from tests.architecture.checkout import PACKAGES, ROOT, name_of, python_of, texts, tracked, tree_of
from tests.architecture.glued import HOMES, NAMES, VALUES, Meanings, glued_in, meanings_of
from tests.architecture.strings import marked, strings_in

FILES = {Path(str(home.__file__)) for home in HOMES}
PREFIXES = (names.PRODUCT, names.METRICS_PREFIX, names.SETTINGS_PREFIX, names.NVIDIA_PREFIX)
OURS = re.compile("|".join(map(re.escape, (*PREFIXES, names.NODE_LEASE_PREFIX))))

# What means many things in a test (a namespace, an audience, a folder), or for nothing without more.
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
OF_MAIA = {
    *(f"{names.PRODUCT}-{what}" for what in ("pod-terminator", "maia", "webhook", "admission-controller")),
    f"charts/{names.PRODUCT}",
}
"""The NetworkPolicy before the door that MAIA's tools use, and the Secret with MAIA's token.

MAIA's own webhook and image, by which its release is known, and our chart, which goes beside it.
"""
OF_MONITORING = {f"{names.PRODUCT}-dashboard", f"{names.PRODUCT}.json", f"{names.PRODUCT}-."}
"""The ConfigMap for Grafana, its file, and how the names of our pods begin; tests/charts/test_monitoring.py
compares names of metrics with what the parts register."""
OF_PODS = {
    *(f"{names.PRODUCT}-{what}" for what in ("policy", "extender-client", "scheduler-extender", "mps")),
    *(f"{names.PRODUCT}-{what}" for what in ("kubelet-leases", "counted-nodes")),
}
"""What the pods of the chart are made of: a ConfigMap, a Secret, a binding; two roles; MPS's daemons."""
OF_NOTES = {
    f"daemonset/{names.NODE_AGENT}",
    *(f"{kind}/{names.BOOKING_SERVER}" for kind in ("deployment", "service")),
    f"{names.NVIDIA_PREFIX}gpu.present",
}
"""What the chart's notes give people to type, and a label of others by which they know nodes with GPUs."""
MOUNTED = (
    *(f"/etc/{names.PRODUCT}/", f"/etc/kubernetes/{names.PRODUCT}/", f"/var/lib/{names.PRODUCT}"),
    f"/run/{names.PRODUCT}/",
)
"""Where the chart's pods, and the cluster's own kube-scheduler, find their files;
tests/long/charts/test_pods_rendered.py loads what the settings say."""
FORMER = {f"{names.STATE_DOMAIN}/rung"}
"""Keys that an earlier release wrote, in what tests/fixtures/formats keeps of it: nobody reads them now."""
OF_THE_API = {f"{names.DOMAIN}/v1"}
"""Group and version of our custom resource, as objects say them."""
GUARDED = (
    *("binders", "binding-state", "class-users", "classes", "comebacks", "gpu-pods", "namespaces", "orders"),
    *("node-agents", "node-state", "pod-state", "queue", "server-nodes", "visible-devices"),
    *("bookings", "controller-nodes", "controller-writes", "leases", "unseen-pods"),
)
POLICIES = {f"{names.PRODUCT}-{what}" for what in GUARDED}
"""Policies of the chart: the API server alone says their names, where it refuses."""
DOMAINS = {"DOMAIN", "STATE_DOMAIN"}
KNOW_THE_DOMAIN = {"booking/web/problems.py", "booking/web/roles.py", "cluster/kube/resources.py"}
"""They name a kind of problem, a right, and the group of an API: none is a key."""


def strays_of_the_product(tree: ast.Module, meanings: Meanings = NAMES) -> Iterator[str]:
    """Strings of shipped code and of devcluster that belong in names.py."""
    for line, value in strings_in(tree):
        if OURS.search(value) or value in VALUES.values():
            yield f"{line}: {value!r}"
    for line, value in glued_in(tree, meanings):
        yield f"{line}: {value!r} is made of a name: give it one of its own in cluster/names.py"


def strays_of_a_test(tree: ast.Module) -> Iterator[str]:
    """The same of tests, which say settings and metrics as an administrator types them, and invent keys."""
    for line, value in strings_in(tree):
        if names.DOMAIN in value or value in OWN_WORDS:
            yield f"{line}: {value!r}"


def test_shipped_code_and_the_development_cluster_spell_out_no_name_of_ours() -> None:
    paths = [path for path in python_of(*PACKAGES, "docs", "proto") if path not in FILES]
    meanings = meanings_of(paths)
    strays = [
        f"{name_of(path)}:{stray}"
        for path in paths
        for stray in strays_of_the_product(tree_of(path), meanings)
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
    assert list(strays_of_a_test(ast.parse(text)))


OF_NAMES = {
    "a sum with a name": "x = names.STATE_DOMAIN + '/hold'",
    "an f-string with a name": "x = f'{names.DOMAIN}/hold'",
    "a name and a literal": "x = f'{names.PRODUCT}-new-lease'",
    "a literal and a name": "x = f'my-{names.PRODUCT}'",
    "a key and more": "x = f'{names.HOLD}-new'",
    "a name and what nobody knows yet": "x = f'{names.HOLD}-{y}'",
    "a name and what follows it at once": "x = names.HOLD + y",
    "a prefix that has names": "x = f'{names.NVIDIA_PREFIX}new'",
    "two names": "x = f'{names.REQUEUE_TRIGGER}.{names.NAMESPACE}'",
    "below somebody's domain": "x = f'example.org/{names.PRODUCT}'",
    "a format": "x = '{}.io/hold'.format(names.PRODUCT)",
    "a format with a word": "x = '{a}-{b}'.format(b=y, a=names.HOLD)",
    "an old format with a name": "x = '%s-%s' % (names.HOLD, y)",
    "a joined tuple of names": "x = '-'.join((names.HOLD, 'new'))",
    "a piece of a name": "x = names.HOLD.rpartition('/')[0] + '/new'",
    "a slice of a name": "x = f'{names.HOLD[:20]}/new'",
    "another name out of one": "x = names.HOLD.replace('hold', 'new')",
    "bytes of a name": "x = names.HOLD.encode() + b'-new'",
    "an imported name": "from cluster.names import PRODUCT\nx = f'{PRODUCT}.io/hold'",
    "a name imported as another": "from cluster.names import HOLD as key\nx = f'{key}-new'",
    "names by another name": "from cluster import names as ours\nx = f'{ours.HOLD}-new'",
    "names in whole": "import cluster.names\nx = f'{cluster.names.HOLD}-new'",
    "a constant": "KEY = names.HOLD\nx = f'{KEY}-new'",
    "a constant of a constant": "KEY = names.HOLD\nTHEIRS: Final = KEY\nx = f'{THEIRS}-new'",
    "a constant of a class": "class A:\n    KEY = names.HOLD\n    x = lambda self: f'{self.KEY}-new'",
    "pieces by names": "domain, _, last = names.HOLD.rpartition('/')\nx = f'{domain}/new'",
    "a name on the way": "x = (key := names.HOLD) + '-new'",
}


@pytest.mark.parametrize("code", OF_NAMES.values(), ids=OF_NAMES.keys())
def test_a_string_made_of_a_name_is_found_however_the_name_is_imported(code: str) -> None:
    assert list(strays_of_the_product(ast.parse(f"from cluster import names\n{code}")))


def test_a_name_is_known_behind_a_constant_of_another_module() -> None:
    meanings = {**NAMES, "booking.there.KEY": marked(names.HOLD)}
    for code in (
        "from booking.there import KEY\nx = KEY + '-new'",
        "import booking.there as a\nx = a.KEY + '-new'",
    ):
        assert list(strays_of_the_product(ast.parse(code), meanings))


def test_constants_that_stand_for_names_are_known_wherever_they_are() -> None:
    found = meanings_of([ROOT / "cluster" / "process" / "metrics.py"])
    assert set(found) - set(NAMES) == {"cluster.process.metrics.NAMESPACE"}


def test_only_listed_modules_use_the_domain_from_which_keys_can_be_built() -> None:
    """Behind another name, or filled into a format, ``names.DOMAIN`` shows nobody the key."""
    users = {
        name_of(path) for path in python_of(*PACKAGES, "docs") if path not in FILES and has_a_domain(path)
    }
    assert users == KNOW_THE_DOMAIN


def has_a_domain(path: Path) -> bool:
    nodes = list(ast.walk(tree_of(path)))
    read = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return bool(DOMAINS & (read | {node.name for node in nodes if isinstance(node, ast.alias)}))


@pytest.mark.parametrize(
    "name", ["GPU_RESOURCE", "BOOKED_CLASS", "MIRROR_LEASE", "WEBHOOK_SERVICE", "CAME_BACK"]
)
def test_a_spelled_out_name_is_found_in_the_product_and_in_tests(name: str) -> None:
    text = f"x = {VALUES[name]!r}"
    assert list(strays_of_the_product(ast.parse(text)))
    assert list(strays_of_a_test(ast.parse(text)))


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_string_made_with_a_prefix_of_ours_is_found_in_the_product(prefix: str) -> None:
    assert list(strays_of_the_product(ast.parse(f"x = '{prefix}something'")))


@pytest.mark.parametrize(
    "code",
    [
        f'"""{names.DOMAIN}/hold"""',
        "x = 'held'",
        "x = names.HOLD",
        "x = names.HOLD + ' is there'",
        "x = f'{names.HOLD}=1,{y}'",
        "x = f'{names.NOT_NOW} Nobody is to blame for {names.HOLD}.'",
        "x = f'--namespace={names.NAMESPACE}'",
        "x = f'daemonset/{names.NODE_AGENT}'",
        "x = f'{names.NAMESPACE}/{names.CLIENT_CONFIG}'",
        "x = f'{names.COMEBACK_PREFIX}{uid}'",
        "x = f'/var/lib/{names.PRODUCT}/{file}'",
        "x = names.host_of(names.EXTENDER)",
        "x = names.HOLD.split('/')[1]",
        "x = f'{names.METRICS_PREFIX}_{name}'",
    ],
)
def test_prose_and_uses_of_names_are_no_strays(code: str) -> None:
    assert not list(strays_of_the_product(ast.parse(f"{code}\nfrom cluster import names")))


def test_every_name_of_ours_in_files_of_other_languages_is_in_names() -> None:
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
        | OF_NOTES
        | OF_PODS
        | FORMER
        | OF_THE_API
    )
    strays = {
        f"{name}: {found}"
        for name, text in texts()
        if Path(name).suffix not in {".md", ".py"}
        for found in token.findall(without_prose(text))
        if found.strip(".-") not in known and found not in known
        if (is_read_by_others(name) and name != OF_KIND) or names.DOMAIN in found
        if not found.startswith(
            (f"{names.METRICS_PREFIX}_", names.SETTINGS_PREFIX, f"{names.VISIBLE}.", *MOUNTED)
        )
    }
    assert not strays


def test_the_chart_gives_pods_the_classes_and_the_webhook_that_are_named() -> None:
    chart = "".join(without_prose(text) for name, text in texts() if name.startswith("charts/"))
    for name in (names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS):
        assert f"name: {name}\n" in chart
    webhooks = {names.WEBHOOK: names.WEBHOOK_ENTRY, names.LAST_WEBHOOK: names.LAST_WEBHOOK_ENTRY}
    for name, entry in webhooks.items():
        assert f'"name" "{name}" "entry" "{entry}"' in chart
    assert f"name: {names.HIDING_WEBHOOK_ENTRY}\n" in chart


def test_every_name_is_used() -> None:
    code = "\n".join(path.read_text() for path in python_of(*PACKAGES, "tests"))
    unused = [
        name
        for home in HOMES
        for name in VALUES.keys() & vars(home).keys()
        if f"{home.__name__.rpartition('.')[2]}.{name}" not in code
        and Path(str(home.__file__)).read_text().count(name) < 2
    ]
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


def test_files_of_every_kind_are_read() -> None:
    suffixes = {path.suffix for path in tracked() if is_read_by_others(name_of(path))}
    assert suffixes >= {".yaml", ".tpl", ".c", ".go", ".proto"}


def test_the_architecture_says_where_each_fact_of_ours_lives_and_who_writes_it() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Where each fact lives")[1].split("\n## ")[0]
    documented = {key.rpartition("/")[2] for key in re.findall(r"`([\w./-]+)`", section)}
    keys = {name.removeprefix(f"{names.STATE_DOMAIN}/") for name in VALUES.values()}
    ours = keys - {*VALUES.values()}
    assert ours
    assert ours - documented == set()
