"""The tables in docs/operations.md are what docs/generate.py makes of the code, and say everything."""

from pathlib import Path

import msgspec
import pytest
from prometheus_client import CollectorRegistry

import deviceplugin.settings
import extender.settings
from cluster.decide.predicates import AGENT, NOT_PUBLISHED, TOO_MANY, UNACCOUNTED
from deviceplugin.metrics import AgentMetrics
from docs.generate import DOCUMENT, ROOT, TABLES, UnknownTableError, docstrings, render
from extender.metrics import Metrics


def test_generating_again_changes_nothing() -> None:
    text = DOCUMENT.read_text()
    assert render(text) == text, "run `make docs` and commit the result"


def test_every_table_stands_in_the_document() -> None:
    text = DOCUMENT.read_text()
    assert [name for name in TABLES if f"<!-- generated: {name} -->" not in text] == []


@pytest.mark.parametrize("module", [deviceplugin.settings, extender.settings], ids=lambda m: m.__name__)
def test_every_setting_says_what_it_means(module: object) -> None:
    path = Path(str(vars(module)["__file__"]))
    kind: type[msgspec.Struct] = vars(module)["Settings"]
    fields = {field.name for field in msgspec.structs.fields(kind)}
    assert fields - docstrings(path, "Settings").keys() == set()


@pytest.mark.parametrize(
    ("table", "count"),
    [("metrics-node-agent", AgentMetrics), ("metrics-extender", Metrics)],
    ids=["node agent", "extender"],
)
def test_no_metric_is_left_out(table: str, count: type[AgentMetrics | Metrics]) -> None:
    registry = CollectorRegistry()
    count(registry)
    told = TABLES[table]()
    families = [family.name for family in registry.collect()]
    assert families
    assert [name for name in families if f"`{name}`" not in told and f"`{name}_total`" not in told] == []


@pytest.mark.parametrize("sentence", [NOT_PUBLISHED, *AGENT.values(), TOO_MANY, UNACCOUNTED])
def test_a_pod_s_reason_to_wait_is_explained(sentence: str) -> None:
    assert sentence in DOCUMENT.read_text()


def test_a_marker_of_an_unknown_table_is_an_error() -> None:
    with pytest.raises(UnknownTableError, match="no table 'weather'"):
        render("<!-- generated: weather -->\n<!-- end -->")


def test_files_named_in_the_documents_exist() -> None:
    wanted = [line for line in (ROOT / "README.md").read_text().splitlines() if "](docs/" in line]
    links = [part.split(")")[0] for line in wanted for part in line.split("](")[1:]]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
