"""Containers with shares learn from an annotation which GPU they see, where the settings say so."""

from typing import Any, Final

from booking.controller.admission.mutation import admitted
from booking.controller.admission.owner import Ownership
from booking.controller.admission.sharing_dialects.translation import Sharing
from cluster import names
from cluster.objects.reservation_pods import visible_key

BOB: Final = Ownership(user="bob")
ON: Final = Sharing(by_annotation=True, runtime_class="nvidia")
VARIABLE: Final = names.VISIBLE_DEVICES_VARIABLE


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def container(name: str, resource: str = names.SHARED_RESOURCE, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {resource: "1", names.GPU_MEMORY: "8192"}}, **more}


def variables(container: dict[str, Any]) -> list[Any]:
    return [one for one in container.get("env", ()) if one["name"] == VARIABLE]


def test_each_container_with_a_share_reads_an_annotation_of_its_own() -> None:
    own = {"name": VARIABLE, "value": "all"}
    after = admitted(
        pod(container("a", env=[own]), container("b"), {"name": "c"}), BOB, None, "gpus", sharing=ON
    )
    for one in after["spec"]["containers"][:2]:
        key = visible_key(one["name"])
        field = {"apiVersion": "v1", "fieldPath": f"metadata.annotations['{key}']"}
        assert variables(one) == [{"name": VARIABLE, "valueFrom": {"fieldRef": field}}]
        assert after["metadata"]["annotations"][key] == ""
    assert not variables(after["spec"]["containers"][2])
    assert after["spec"]["runtimeClassName"] == "nvidia"
    assert admitted(after, BOB, None, "gpus", sharing=ON) == after, "a second review changes nothing"


def test_a_runtime_class_of_the_pod_s_own_stays() -> None:
    after = admitted(pod(container("a"), runtimeClassName="mine"), BOB, None, "gpus", sharing=ON)
    assert after["spec"]["runtimeClassName"] == "mine"


def test_whole_gpus_and_installations_without_it_are_left_alone() -> None:
    whole = admitted(pod(container("a", names.GPU_RESOURCE)), BOB, None, "gpus", sharing=ON)
    off = admitted(pod(container("a")), BOB, None, "gpus")
    for after in (whole, off):
        assert not variables(after["spec"]["containers"][0])
        assert "runtimeClassName" not in after["spec"]


def test_a_long_name_has_a_key_of_its_own() -> None:
    keys = {visible_key("c" * 62 + last) for last in "ab"}
    assert len(keys) == 2
    assert all(len(key.partition("/")[2]) <= names.LONGEST_KEY for key in keys)
