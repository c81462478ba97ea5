"""Helm as it is built for development clusters."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import binaries
from devcluster.product import chart

Document = dict[str, Any]
Render = Callable[..., list[Document]]


@pytest.fixture(scope="session")
def program() -> Path:
    return binaries.ensure().path("helm")


@pytest.fixture(scope="session")
def render(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Render:
    folder = tmp_path_factory.mktemp("helm")

    def rendered(values: Mapping[str, Any] | None = None) -> list[Document]:
        text = chart.render(program, folder, values)
        return [document for document in yaml.safe_load_all(text) if document]

    return rendered
