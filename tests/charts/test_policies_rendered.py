"""What Helm makes of the policies: whole, strict, in names that everybody knows, and as the values say."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import dialect_names, names
from devcluster.errors import ClusterError
from devcluster.product import chart
from tests.architecture.checkout import MANUAL
from tests.charts.conftest import Document, Render

pytestmark = pytest.mark.component

KINDS = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")


def of_kind(documents: list[Document], kind: str) -> dict[str, Document]:
    return {d["metadata"]["name"]: d["spec"] for d in documents if d["kind"] == kind}


def policies(documents: list[Document]) -> list[Document]:
    return [spec for kind in KINDS for spec in of_kind(documents, kind).values()]


def binders(documents: list[Document]) -> str:
    (validation,) = of_kind(documents, "ValidatingAdmissionPolicy")["gpu-booking-binders"]["validations"]
    return str(validation["expression"])


def test_the_manual_has_a_row_for_every_policy(render: Render) -> None:
    claims = {"dra": {"enabled": True, "booking": True}}
    documents = render({"policies": {"binders": {"restricted": True}}} | claims)
    there = {name.removeprefix("gpu-booking-") for kind in KINDS for name in of_kind(documents, kind)}
    _, section = (MANUAL / "admission.md").read_text().split("## What the API server refuses")
    rows = re.findall(r"^\| `([a-z-]+)`[^|]*\|", section.partition("\n#")[0], re.MULTILINE)
    assert sorted(rows) == sorted(there)


def test_every_policy_fails_closed_and_is_bound_once_to_deny(render: Render) -> None:
    documents = render({"policies": {"binders": {"restricted": True}}})
    for kind in KINDS:
        bindings = of_kind(documents, f"{kind}Binding")
        assert sorted(bound["policyName"] for bound in bindings.values()) == sorted(of_kind(documents, kind))
    assert {policy["failurePolicy"] for policy in policies(documents)} == {"Fail"}
    denying = of_kind(documents, "ValidatingAdmissionPolicyBinding").values()
    assert all(bound["validationActions"] == ["Deny", "Audit"] for bound in denying)


def test_every_refusal_is_a_message_that_fits_a_line(render: Render) -> None:
    for policy in of_kind(render(), "ValidatingAdmissionPolicy").values():
        for validation in policy["validations"]:
            assert validation["message"].endswith(".")
            assert "\n" not in validation["message"]
            assert validation.get("messageExpression", ".'").endswith(".'")


def test_every_key_in_the_policies_is_one_of_ours(render: Render) -> None:
    known = {value for value in vars(names).values() if isinstance(value, str)}
    found = set(
        re.findall(rf"(?:state\.)?{re.escape(names.DOMAIN)}/[a-z-]+", yaml.safe_dump(policies(render())))
    )
    assert found
    assert found <= known


@pytest.mark.parametrize(
    ("dialect", "words"),
    [
        ("hami", {names.GPU_MEMORY, names.GPU_MEMORY_PERCENTAGE, names.GPU_CORES}),
        ("gpushare", {names.ALIYUN_MEMORY}),
        ("kai", set(dialect_names.KAI_REQUESTS)),
    ],
)
def test_pods_in_the_words_of_others_are_refused_only_where_admission_reads_them(
    render: Render, dialect: str, words: set[str]
) -> None:
    def known(*dialects: str) -> set[str]:
        policy = of_kind(render({"sharing": {"dialects": list(dialects)}}), "ValidatingAdmissionPolicy")
        (condition,) = policy[names.GPU_PODS_POLICY]["matchConditions"]
        return set(re.findall(r"['\"]([a-z./-]+)['\"]", condition["expression"]))

    assert known(dialect) - known() == words
    assert names.SHARED_RESOURCE in known()


def test_no_policy_is_rendered_when_they_are_switched_off(render: Render) -> None:
    assert policies(render())
    assert not policies(render({"policies": {"enabled": False, "binders": {"restricted": True}}}))


def test_without_mutating_policies_pods_that_would_see_gpus_are_refused(
    program: Path, tmp_path: Path
) -> None:
    text = chart.render(program, tmp_path, served=())
    documents = [document for document in yaml.safe_load_all(text) if document]
    assert not of_kind(documents, "MutatingAdmissionPolicy")
    assert "gpu-booking-visible-devices" in of_kind(documents, "ValidatingAdmissionPolicy")


def test_binders_are_restricted_on_demand_and_always_include_our_own(render: Render) -> None:
    assert "gpu-booking-binders" not in of_kind(render(), "ValidatingAdmissionPolicy")
    restricted = render({"policies": {"binders": {"restricted": True, "allowed": ["system:another"]}}})
    listed = re.findall(r'"([^"]+)"', binders(restricted))
    ours = [f"system:serviceaccount:{names.NAMESPACE}:{n}" for n in (names.EXTENDER, names.SCHEDULER_ACCOUNT)]
    assert listed == ["system:another", *ours]


def gpu_pods(documents: list[Document]) -> Document:
    found: Document = of_kind(documents, "ValidatingAdmissionPolicy")[names.GPU_PODS_POLICY]
    return found


def test_pods_with_gpus_are_judged_where_the_webhook_sees_them(render: Render) -> None:
    documents = render({"admission": {"excludedNamespaces": ["monitoring"]}})
    configurations = [d for d in documents if d["kind"] == "MutatingWebhookConfiguration"]
    selector = gpu_pods(documents)["matchConstraints"]["namespaceSelector"]
    assert [c["webhooks"][0]["namespaceSelector"] for c in configurations] == [selector, selector]


def test_policies_name_the_configured_scheduler(render: Render) -> None:
    assert names.SCHEDULER_NAME in str(gpu_pods(render())["validations"])
    existing = gpu_pods(render({"scheduler": {"mode": "existing", "name": "default-scheduler"}}))
    assert "schedulerName == 'default-scheduler'" in str([v["expression"] for v in existing["validations"]])


def test_the_admitted_annotation_is_not_required_where_the_webhook_fails_open(render: Render) -> None:
    assert names.ADMITTED in str(gpu_pods(render())["validations"])
    (left,) = gpu_pods(render({"admission": {"failurePolicy": "Ignore"}}))["validations"]
    assert "nodeName" in left["expression"]


@pytest.mark.parametrize(
    "values",
    [
        {"policies": {"enabled": "perhaps"}},
        {"policies": {"binders": {"allowed": "system:kube-scheduler"}}},
        {"policies": {"binder": {}}},
        {"scheduler": {"name": "it's"}},
    ],
    ids=str,
)
def test_values_that_cannot_work_are_refused(render: Render, values: dict[str, Any]) -> None:
    with pytest.raises(ClusterError, match="values don't meet the specifications of the schema"):
        render(values)
