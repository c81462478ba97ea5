"""What docs/sharing.md and its examples say about settings and keys is what the code does."""

import re
from typing import Any

import msgspec
import pytest
import yaml

from booking.controller.settings import ControllerSettings
from cluster import names
from cluster.objects.namespaces import Namespace
from docs.tables.markdown import ROOT
from tests.booking.controller.admission.fake_cluster_view import reviewed

EXAMPLES = ROOT / "docs" / "examples"
TEXT = (ROOT / "docs" / "sharing.md").read_text()
FIELDS = {field.name: field for field in msgspec.structs.fields(ControllerSettings)}
SETTINGS = [name for name in FIELDS if name.startswith("sharing_")]


def documents(name: str) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all((EXAMPLES / name).read_text()) if one]


@pytest.mark.parametrize("dialect", FIELDS["sharing_dialects"].default)
def test_the_example_of_every_dialect_is_admitted_with_a_share(dialect: str) -> None:
    (given,) = documents(f"share-{dialect}.yaml")
    pod, outcome = reviewed(given)
    assert outcome.refused is None
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert int(limits[names.SHARED_RESOURCE]) == 1
    assert {names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE} & limits.keys()


def test_the_example_of_a_namespace_has_a_default_and_a_pod_that_has_none_of_it() -> None:
    namespace, quota, pod = documents("share-namespace.yaml")
    assert msgspec.convert(namespace, Namespace).default_share == "25%"
    counted = {key.removeprefix("requests.") for key in quota["spec"]["hard"]}
    assert all(map(names.is_gpu_request, counted))
    assert pod["metadata"]["annotations"] == {names.SHARING: "whole"}


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_is_named(setting: str) -> None:
    assert f"`{names.setting(setting)}`" in TEXT


def test_every_named_key_is_one_of_ours() -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)}
    assert set(re.findall(rf"(?:state\.)?{re.escape(names.DOMAIN)}/[a-z-]+", TEXT)) <= known
