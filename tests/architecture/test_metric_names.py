"""Metrics are named by one scheme, Prometheus' own, and their help says what is counted and in which unit."""

import re

import pytest
from prometheus_client.metrics_core import Metric

from cluster import names
from docs.tables.metrics import exposed_name, labels_of, metrics_of
from docs.tables.parts import AGENT, CONTROLLER, EXTENDER, PARTS, SERVER, Part

ROOMS = {
    AGENT.name: {"agent", "events"},
    EXTENDER.name: {"extender", "events"},
    SERVER.name: {"server", "mirror", "policy"},
    CONTROLLER.name: {"controller", "admission", "reclaimer", "events"},
}
"""Part -> what may follow the prefix."""
OTHER_UNITS = {"ms", "milliseconds", "minutes", "hours", "days", "mib", "gib", "kb", "percent", "age", "time"}
"""Words that a name does not end in: Prometheus counts in base units, and names them."""
EVERY = [pytest.param(part, metric, id=metric.name) for part in PARTS for metric in metrics_of(part)]
every = pytest.mark.parametrize(("part", "metric"), EVERY)


@every
def test_a_name_is_lowercase_and_begins_with_our_prefix_and_its_part(part: Part, metric: Metric) -> None:
    name = exposed_name(metric)
    assert re.fullmatch(r"[a-z]+(_[a-z]+)+", name)
    assert name.removeprefix(f"{names.METRICS_PREFIX}_").partition("_")[0] in ROOMS[part.name]


@every
def test_a_name_ends_in_a_base_unit_or_names_the_counted_things(part: Part, metric: Metric) -> None:
    name = exposed_name(metric)
    assert name.rpartition("_")[2] not in OTHER_UNITS, part.name
    assert name.endswith("_total") == (metric.type == "counter")
    if metric.type == "histogram":
        assert name.endswith("_seconds")
    if "timestamp" in name:
        assert name.endswith("_timestamp_seconds")


@every
def test_a_help_text_is_a_sentence_that_names_the_unit(part: Part, metric: Metric) -> None:
    text = metric.documentation
    assert re.fullmatch(r"[A-Z1].*[a-z0-9)]\.", text, re.DOTALL), part.name
    assert "\n" not in text
    if exposed_name(metric).endswith("_seconds"):
        assert re.search(r"\bseconds\b", text, re.IGNORECASE)
    if exposed_name(metric).endswith("_timestamp_seconds"):
        assert text.startswith("Unix time, in seconds, ")


@every
def test_a_help_text_explains_the_labels(part: Part, metric: Metric) -> None:
    """Labels are few and their values bounded: none names a pod, a user, a booking or an address.

    But for what a node agent says of its devices: there are no more holders than devices, and a pod's series
    go with the pod.
    """
    labels = labels_of(metric)
    of_holders = {"namespace", "pod", "user", "booking", "source"} if "device" in labels else set()
    assert set(labels) - of_holders <= {
        "endpoint",
        "gate",
        "health",
        "kind",
        "loop",
        "model",
        "node",
        "outcome",
        "reason",
        "resource",
        "result",
        "status",
    } | {
        "device",
        "index",
        "state",
        "verb",
        "verdict",
    }, part.name
    assert not labels or re.search(r",? by ", metric.documentation)


def test_a_metric_means_the_same_in_every_part() -> None:
    definitions: dict[str, set[tuple[str, str, tuple[str, ...]]]] = {}
    for part in PARTS:
        for metric in metrics_of(part):
            kind = (metric.type, metric.documentation, labels_of(metric))
            definitions.setdefault(metric.name, set()).add(kind)
    assert [name for name, kinds in definitions.items() if len(kinds) > 1] == []
