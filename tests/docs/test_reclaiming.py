"""What docs/reclaiming.md and its example say about settings, keys and Events is what the code has."""

import re
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import yaml

from booking.controller.settings import ControllerSettings
from cluster import names
from docs.tables.markdown import ROOT
from docs.tables.settings import written

TEXT = (ROOT / "docs" / "reclaiming.md").read_text()
POLICIES = (
    "notice_seconds",
    "longest_notice_seconds",
    "longest_grace_seconds",
    "restart_cost_seconds",
    "budget_override_seconds",
    "end_action_without_controller",
    "end_action_with_controller",
    "warn_before",
    "unbooked_action",
    "unbooked_notebook_action",
    "queue_gate",
    "maia",
)
"""Settings of the controller by which it is chosen what becomes of pods."""
FIELDS = {field.name: field for field in msgspec.structs.fields(ControllerSettings)}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_named_with_its_default(policy: str) -> None:
    match = re.search(rf"`{names.setting(policy)}` \(([^)]*)\)", re.sub(r"\s+", " ", TEXT))
    assert match, f"{names.setting(policy)} is not documented with its default."
    default = FIELDS[policy].default
    if isinstance(default, tuple):
        assert msgspec.convert(match[1].split(", "), tuple[timedelta, ...], strict=False) == default
    else:
        assert match[1] == (written(default) or "never")


def test_every_named_setting_exists() -> None:
    named = set(re.findall(rf"{names.SETTINGS_PREFIX}[A-Z_]+", TEXT))
    assert named - {names.setting(field) for field in FIELDS} == set()


def constants(*, of: str) -> set[str]:
    """Values of the names that begin so."""
    return {value for value in vars(names).values() if isinstance(value, str) and value.startswith(of)}


def test_every_named_key_is_one_of_ours() -> None:
    named = set(re.findall(rf"(?:state\.)?{re.escape(names.DOMAIN)}/[a-z-]+", TEXT))
    assert named <= constants(of=names.DOMAIN) | constants(of=names.STATE_DOMAIN)


def job() -> dict[str, Any]:
    documents = yaml.safe_load_all((ROOT / "docs" / "examples" / "job.yaml").read_text())
    return next(document for document in documents if document["kind"] == "Job")


def test_the_example_counts_evictions_as_no_failures() -> None:
    (rule,) = job()["spec"]["podFailurePolicy"]["rules"]
    assert rule["action"] == "Ignore"
    assert rule["onPodConditions"] == [{"type": names.DISRUPTION_TARGET, "status": "True"}]
