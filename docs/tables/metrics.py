"""Metrics: what each part registers when it is actually built, with the labels that the code gives them."""

import ast
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from prometheus_client.metrics_core import Metric

from cluster import names
from docs.tables.markdown import ROOT, code, prose, table
from docs.tables.parts import Part

SHIPPED: Final = ("booking", "cluster", "deviceplugin", "extender")
KINDS: Final = ("Counter", "Gauge", "Histogram", "Info", "Summary")
ON_DEMAND: Final = ("measured", "measured_each", "counted_each")
"""Functions for metrics that each scrape reads: ``(registry, name, documentation, read)`` and ``label``."""


def metrics_table(part: Part) -> str:
    """Name, kind, labels and meaning of every metric of ours that a part registers, sorted by name."""
    rows = [
        (
            code(exposed_name(metric)),
            metric.type,
            ", ".join(map(code, labels_of(metric))),
            prose(metric.documentation),
        )
        for metric in metrics_of(part)
    ]
    return table(("metric", "kind", "labels", "meaning"), sorted(rows))


@cache
def metrics_of(part: Part) -> tuple[Metric, ...]:
    """The metrics of a part, without those of every Python process."""
    with tempfile.TemporaryDirectory() as folder:
        registry = part.build(Path(folder))
    return tuple(m for m in registry.collect() if m.name.startswith(f"{names.METRICS_PREFIX}_"))


def exposed_name(metric: Metric) -> str:
    """The name that Prometheus shows."""
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def labels_of(metric: Metric) -> tuple[str, ...]:
    """The labels that the code gives a metric of this name."""
    return made_in_code().get(metric.name.removeprefix(f"{names.METRICS_PREFIX}_"), ())


@cache
def made_in_code() -> dict[str, tuple[str, ...]]:
    """Name without prefix and "_total" -> labels, for every metric that a call in shipped code registers."""
    files = [path for package in SHIPPED for path in sorted((ROOT / package).rglob("*.py"))]
    return dict(found for path in files for found in _made_in(ast.parse(path.read_text())))


def _made_in(tree: ast.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=str() as name), *others]) if (
                kind in KINDS
            ):
                yield name.removesuffix("_total"), _labels_among(others)
            case ast.Call(
                func=ast.Name(id=kind), args=[_, ast.Constant(value=str() as name), *_], keywords=more
            ) if kind in ON_DEMAND:
                labels = [one.value for one in more if one.arg == "label"]
                yield name, tuple(str(each.value) for each in labels if isinstance(each, ast.Constant))


def _labels_among(arguments: list[ast.expr]) -> tuple[str, ...]:
    lists = [each.elts for each in arguments if isinstance(each, ast.List | ast.Tuple)]
    return tuple(str(e.value) for elements in lists for e in elements if isinstance(e, ast.Constant))
