"""Which pods use a claim, by the kubelet's record."""

import json
from pathlib import Path

import pytest

from deviceplugin.kubelet.claim_users import NAME, ClaimUsers, ClaimUsersError


def written(folder: Path, *claims: dict[str, object]) -> ClaimUsers:
    """A record as kubelet 1.37 writes it."""
    data = {
        "kind": "DRACheckpoint",
        "apiVersion": "checkpoint.dra.kubelet.k8s.io/v1",
        "ClaimInfoStateList": list(claims) or None,
    }
    (folder / NAME).write_text(json.dumps({"Data": json.dumps(data), "Checksum": 736302156}))
    return ClaimUsers(folder)


def claim(uid: str, *pods: str) -> dict[str, object]:
    return {"ClaimUID": uid, "ClaimName": "c", "Namespace": "default", "PodUIDs": {pod: {} for pod in pods}}


def test_each_claim_has_its_pods(tmp_path: Path) -> None:
    users = written(tmp_path, claim("one", "a", "b"), claim("two"))
    assert users.read() == {"one": frozenset({"a", "b"}), "two": frozenset()}
    assert written(tmp_path).read() == {}


def test_a_kubelet_that_never_had_a_claim_has_no_record(tmp_path: Path) -> None:
    assert ClaimUsers(tmp_path).read() == {}


@pytest.mark.parametrize("text", ["", "{}", '{"Data": "{"}', '{"Data": "{\\"ClaimInfoStateList\\": [{}]}"}'])
def test_a_record_of_another_form_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ClaimUsersError):
        ClaimUsers(tmp_path).read()
