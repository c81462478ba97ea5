"""Metrics: one registry per process, which is passed to the parts that count; there is no global one."""

import math
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cluster import names

NAMESPACE: Final = names.METRICS_PREFIX
"""Prefix of every metric of ours."""


def new_registry() -> CollectorRegistry:
    """A registry with the metrics of every process: memory, CPU, files, Python, garbage collection."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def measured(
    registry: CollectorRegistry, name: str, documentation: str, read: Callable[[], float | None]
) -> None:
    """A gauge that is read at each scrape; None is shown as NaN (e.g. an age before the first event).

    Args:
        registry: where it is registered.
        name: without our prefix, with its unit: ``cache_staleness_seconds``.
        documentation: its help text.
        read: called for every scrape, by any thread.
    """
    registry.register(_Measured(f"{NAMESPACE}_{name}", documentation, read))


def measured_each(
    registry: CollectorRegistry,
    name: str,
    documentation: str,
    read: Callable[[], Mapping[str, float]],
    *,
    label: str,
) -> None:
    """As ``measured``, with a label: a sample for each of its values at the time of the scrape."""
    registry.register(_MeasuredEach(f"{NAMESPACE}_{name}", documentation, label, read))


def counted_each(
    registry: CollectorRegistry,
    name: str,
    documentation: str,
    read: Callable[[], Mapping[str, int]],
    *,
    label: str,
) -> None:
    """As ``measured_each``, but a counter. ``name`` is without ``_total``, which is added."""
    made = _MeasuredEach(f"{NAMESPACE}_{name}", documentation, label, read, family=CounterMetricFamily)
    registry.register(made)


def render(registry: CollectorRegistry, accept: str) -> tuple[str, bytes]:
    """Content type and body for a scraper that accepts these types."""
    encode, content_type = choose_encoder(accept)
    return content_type, encode(registry)


class _Measured(Collector):
    def __init__(self, name: str, documentation: str, read: Callable[[], float | None]) -> None:
        self._name = name
        self._documentation = documentation
        self._read = read

    def describe(self) -> list[GaugeMetricFamily]:
        return [GaugeMetricFamily(self._name, self._documentation)]

    def collect(self) -> list[GaugeMetricFamily]:
        value = self._read()
        return [GaugeMetricFamily(self._name, self._documentation, math.nan if value is None else value)]


class _MeasuredEach(Collector):
    def __init__(
        self,
        name: str,
        documentation: str,
        label: str,
        read: Callable[[], Mapping[str, float]],
        *,
        family: type[GaugeMetricFamily] | type[CounterMetricFamily] = GaugeMetricFamily,
    ) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = (label,)
        self._read = read
        self._family = family

    def describe(self) -> list[Metric]:
        return [self._family(self._name, self._documentation, labels=self._labels)]

    def collect(self) -> list[Metric]:
        family = self._family(self._name, self._documentation, labels=self._labels)
        for value, number in sorted(self._read().items()):
            family.add_metric([value], number)
        return [family]
