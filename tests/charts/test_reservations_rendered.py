"""What Helm makes for shares on nodes of another device plugin: a class, settings, and no right more."""

import pytest

from booking.controller.reclaimer.reservations.manifest import ReservationTerms, manifest
from cluster import names
from devcluster.errors import ClusterError
from tests.charts.conftest import Document, Render
from tests.charts.test_rendered import of_kind

pytestmark = pytest.mark.component

ON = {"sharing": {"reservationPods": {"enabled": True, "runtimeClassName": "nvidia"}}}


def environment(documents: list[Document], kind: str, name: str) -> dict[str, str | None]:
    pod = of_kind(documents, kind)[name]["spec"]["template"]["spec"]
    return {one["name"]: one.get("value") for one in pod["containers"][0]["env"]}


def test_it_gives_nobody_a_right(render: Render) -> None:
    off, on = render({}), render(ON)
    for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"):
        assert of_kind(on, kind) == of_kind(off, kind)
    assert names.RESERVATION_CLASS not in of_kind(off, "PriorityClass")


def test_reservation_pods_have_a_class_as_high_as_booked_pods_and_never_preempt(render: Render) -> None:
    classes = of_kind(render(ON), "PriorityClass")
    made = classes[names.RESERVATION_CLASS]
    assert made["value"] == classes[names.BOOKED_CLASS]["value"]
    assert made["preemptionPolicy"] == "Never"
    assert names.RESERVATIONS_POLICY in of_kind(render(ON), "ValidatingAdmissionPolicyBinding")


def test_controller_and_agent_know_the_settings(render: Render) -> None:
    for values in ({}, ON):
        documents, is_on = render(values), values == ON
        controller = environment(documents, "Deployment", names.CONTROLLER)
        assert bool(controller.get(names.setting("sharing_reservation_image"))) is is_on
        assert bool(controller.get(names.setting("sharing_runtime_class"))) is is_on
        agent = environment(documents, "DaemonSet", names.NODE_AGENT)
        assert agent.get(names.setting("sharing_reservation_pods")) == ("true" if is_on else "false")
        pod = of_kind(documents, "DaemonSet")[names.NODE_AGENT]["spec"]["template"]["spec"]
        assert pod.get("runtimeClassName") == ("nvidia" if is_on else None)


def test_the_agent_finds_out_about_the_runtime_class_of_shares_alone(render: Render) -> None:
    with pytest.raises(ClusterError, match="differ"):
        render({**ON, "nodeAgent": {"runtimeClassName": "other"}})


def test_the_policy_allows_what_the_controller_makes() -> None:
    """Its conditions, as the chart has them: what the manifest must not have."""
    spec = manifest("node-a-0", "node-a", names.NAMESPACE, ReservationTerms(image="pause"))["spec"]
    assert not spec["automountServiceAccountToken"]
    assert {"nodeName", "volumes", "initContainers", "hostNetwork", "hostPID", "hostIPC"}.isdisjoint(spec)
    (container,) = spec["containers"]
    assert {"command", "args"}.isdisjoint(container)
    assert container["resources"]["limits"] == container["resources"]["requests"]
