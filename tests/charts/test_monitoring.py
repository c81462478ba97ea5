"""What the chart brings for Prometheus and Grafana: off unless asked for, true to the metrics that there are.

Rules are judged by promtool, the program of Prometheus that knows when they fire.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from cluster import names
from cluster.process.metrics import new_registry
from devcluster.errors import ClusterError
from devcluster.product import chart
from docs.tables.markdown import ROOT
from docs.tables.metrics import exposed_name, labels_of, metrics_of
from docs.tables.parts import PARTS, Part
from tests.architecture.checkout import MANUAL
from tests.charts.conftest import Document, Render
from tests.fakes.headings import anchors

pytestmark = pytest.mark.component

EVERYTHING = {
    "monitoring": {part: {"enabled": True} for part in ("alerts", "dashboard", "scraping")},
}
OF_THE_OPERATOR = {"PodMonitor", "PrometheusRule"}
DASHBOARD = json.loads(Path(chart.CHART, "files", "dashboard.json").read_text())
CASES = ROOT / "tests" / "charts" / "alerts.yaml"
GIVEN_BY_PROMETHEUS = {"component", "node", "pod"}
"""Labels that scraping adds: the PodMonitor's own, and the operator's."""


def one(documents: list[Document], kind: str, name: str) -> Document:
    (found,) = (d for d in documents if (d["kind"], d["metadata"]["name"]) == (kind, name))
    return found


def rules_of(render: Render, **alerts: Any) -> list[dict[str, Any]]:
    documents = render({"monitoring": {"alerts": {"enabled": True, **alerts}}})
    (group,) = one(documents, "PrometheusRule", names.PRODUCT)["spec"]["groups"]
    return list(group["rules"])


def promtool(*words: str, given: str | None = None, folder: Path | None = None) -> str:
    """What promtool says; it must be content."""
    done = subprocess.run(
        ["promtool", *words], cwd=folder, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def written(folder: Path, rules: list[dict[str, Any]]) -> Path:
    """Rules in a file as Prometheus itself reads them."""
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "rules", "rules": rules}]}))
    return file


# --- what is rendered --------------------------------------------------------------------------------
def test_by_default_nothing_is_rendered_that_needs_another_product(render: Render) -> None:
    documents = render()
    assert not OF_THE_OPERATOR & {d["kind"] for d in documents}
    assert not [d for d in documents if "grafana_dashboard" in (d["metadata"].get("labels") or {})]


@pytest.mark.parametrize(
    ("part", "kind"),
    [("alerts", "PrometheusRule"), ("dashboard", "ConfigMap"), ("scraping", "PodMonitor")],
)
def test_each_object_is_switched_on_separately_and_has_the_given_labels(
    render: Render, part: str, kind: str
) -> None:
    before = {(d["kind"], d["metadata"]["name"]) for d in render()}
    documents = render({"monitoring": {part: {"enabled": True, "labels": {"release": "prometheus"}}}})
    (added,) = (d for d in documents if (d["kind"], d["metadata"]["name"]) not in before)
    assert added["kind"] == kind
    assert added["metadata"]["labels"]["release"] == "prometheus"
    assert added["metadata"]["namespace"] == names.NAMESPACE


def test_the_dashboard_is_the_file_and_may_be_in_another_namespace(render: Render) -> None:
    documents = render({"monitoring": {"dashboard": {"enabled": True, "namespace": "grafana"}}})
    found = one(documents, "ConfigMap", "gpu-booking-dashboard")
    assert found["metadata"]["namespace"] == "grafana"
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    (text,) = found["data"].values()
    assert json.loads(text) == DASHBOARD


def test_our_pods_are_scraped_at_the_port_of_their_probes(render: Render) -> None:
    """Every pod of a workload of ours has a port of that name, and the labels by which it is found."""
    documents = render(EVERYTHING)
    spec = one(documents, "PodMonitor", names.PRODUCT)["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    wanted = spec["selector"]["matchLabels"].items()
    for workload in (d for d in documents if d["kind"] in {"DaemonSet", "Deployment", "StatefulSet"}):
        template = workload["spec"]["template"]
        assert wanted <= template["metadata"]["labels"].items(), workload["metadata"]["name"]
        ports = [p["name"] for c in template["spec"]["containers"] for p in c.get("ports", ())]
        assert endpoint["port"] in ports, workload["metadata"]["name"]


@pytest.mark.parametrize(
    "values",
    [
        {"alerts": {"certificateDays": 90}},
        {"alerts": {"bookedWaitSeconds": 0}},
        {"alerts": {"runbooks": "docs/operations/alerts.md#health"}},
        {"scraping": {"interval": "often"}},
        {"dashboard": {"labels": {"grafana_dashboard": 1}}},
        {"rules": {}},
    ],
)
def test_values_that_cannot_work_are_refused(render: Render, values: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match="values don't meet the specifications of the schema"):
        render({"monitoring": values})


# --- alerts ------------------------------------------------------------------------------------------
def test_alerts_fire_when_they_should_and_not_before(render: Render, tmp_path: Path) -> None:
    written(tmp_path, rules_of(render))
    shutil.copy(CASES, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", CASES.name, folder=tmp_path)


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(render: Render) -> None:
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    alerts = {rule["alert"] for rule in rules_of(render)}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == alerts
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == alerts


def test_every_alert_leads_to_its_section_of_the_manual(render: Render) -> None:
    known = anchors((MANUAL / "alerts.md").read_text())
    for rule in rules_of(render, runbooks="https://docs.example.org/alerts.md"):
        address, _, heading = rule["annotations"]["runbook_url"].partition("#")
        assert address == "https://docs.example.org/alerts.md"
        assert heading in known, rule["alert"]


def test_every_alert_has_a_description_and_a_severity(render: Render) -> None:
    for rule in rules_of(render):
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert all(rule["annotations"][key].endswith(".") for key in ("description", "summary"))


def test_thresholds_are_those_of_the_values(render: Render) -> None:
    expressions = {rule["alert"]: rule["expr"] for rule in rules_of(render, bookedWaitSeconds=2000000)}
    assert expressions["GpuBookingBookedPodWaits"].endswith(" > 2000000")
    expressions = {rule["alert"]: rule["expr"] for rule in rules_of(render, certificateDays=30)}
    assert expressions["GpuBookingCertificateEnds"].count(f"< {30 * 24 * 3600}") == 2


# --- what is asked of Prometheus ---------------------------------------------------------------------
def panels() -> Iterator[dict[str, Any]]:
    yield from (panel for panel in DASHBOARD["panels"] if panel["type"] != "row")


def questions(render: Render) -> list[str]:
    """Every expression of the dashboard and of the alerts."""
    shown = [target["expr"].replace("$__rate_interval", "5m") for p in panels() for target in p["targets"]]
    return [*shown, *(rule["expr"] for rule in rules_of(render))]


def exposed() -> set[str]:
    """Names of all samples that our parts show."""
    found = {sample.split()[0] for sample in generate_latest(new_registry()).decode().splitlines()}
    for part in PARTS:
        for metric in metrics_of(part):
            endings = ("_bucket", "_count", "_sum") if metric.type == "histogram" else ("",)
            found |= {f"{exposed_name(metric)}{ending}" for ending in endings}
    return found


def test_every_query_is_valid(render: Render, tmp_path: Path) -> None:
    rules = [{"record": f"question:{n}", "expr": expr} for n, expr in enumerate(questions(render))]
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(written(tmp_path, rules)))


def test_every_query_uses_existing_metrics(render: Render) -> None:
    known = exposed()
    for query in questions(render):
        named = set(re.findall(rf"\b(?:{names.METRICS_PREFIX}|process)_[a-z_]+", query))
        assert named, query
        assert named <= known, query


def test_every_query_uses_existing_labels(render: Render) -> None:
    known = {exposed_name(metric): labels_of(metric) for part in PARTS for metric in metrics_of(part)}
    for query in questions(render):
        named = re.findall(rf"\b{names.METRICS_PREFIX}_[a-z_]+", query)
        has = {"le"} | GIVEN_BY_PROMETHEUS
        for name in named:
            has |= set(known.get(name, ()) or known.get(re.sub("_(bucket|sum|count)$", "", name), ()))
        grouped = {one for many in re.findall(r"\bby \(([^)]*)\)", query) for one in many.split(", ")}
        chosen = set(re.findall(r"[{,]([a-z_]+)=", query))
        assert grouped | chosen <= has, query


def test_every_panel_has_a_name_of_its_own_a_place_of_its_own_and_a_query() -> None:
    shown = list(panels())
    assert len({panel["title"] for panel in shown}) == len(shown)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        mine = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not mine & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= mine
    assert all(panel["targets"] for panel in shown)


def test_the_legend_of_a_panel_uses_labels_that_its_query_keeps() -> None:
    for panel in panels():
        for target in panel["targets"]:
            wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            kept = {
                one for many in re.findall(r"\bby \(([^)]*)\)", target["expr"]) for one in many.split(", ")
            }
            assert wanted <= kept | GIVEN_BY_PROMETHEUS, panel["title"]


# --- what the parts report ---------------------------------------------------------------------------
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_promtool_accepts_the_names_of_our_metrics(part: Part) -> None:
    with TemporaryDirectory(dir="/tmp") as folder:  # the paths of an agent's sockets have to be short
        text = generate_latest(part.build(Path(folder))).decode()
    assert names.METRICS_PREFIX in text
    assert promtool("check", "metrics", given=text) == ""
