"""To which pod a process belongs, by every form of cgroup that kubelets and runtimes make."""

import pytest

from deviceplugin.usage.cgroups import ProcessOwner, owner_of

UID = "0a1b2c3d-1111-2222-3333-444455556666"
LOW = UID.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
ID = "5c" * 32
OTHER = "ffffffff-0000-0000-0000-000000000000"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(f"/kubepods/burstable/pod{UID}/{ID}", id="cgroupfs, containerd"),
        pytest.param(f"/kubepods/pod{UID}/{ID}", id="cgroupfs, guaranteed"),
        pytest.param(f"/kubepods/besteffort/pod{UID}/crio-{ID}", id="cgroupfs, CRI-O"),
        pytest.param(
            f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{LOW}.slice/cri-containerd-{ID}.scope",
            id="systemd, containerd",
        ),
        pytest.param(
            f"/kubepods.slice/kubepods-pod{LOW}.slice/crio-{ID}.scope", id="systemd, CRI-O, guaranteed"
        ),
        pytest.param(
            f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{LOW}.slice/crio-{ID}.scope/container",
            id="systemd, CRI-O with crun",
        ),
        pytest.param(
            f"/kubepods.slice/kubepods-pod{LOW}.slice/crio-conmon-{ID}.scope", id="CRI-O's monitor of the pod"
        ),
        pytest.param(
            f"/system.slice/containerd.service/kubepods-burstable-pod{LOW}.slice:cri-containerd:{ID}",
            id="kubelet with systemd, containerd with cgroupfs",
        ),
        pytest.param(
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{LOW}.slice/cri-containerd-{ID}.scope",
            id="below a root of the kubelet's",
        ),
        pytest.param(
            f"/../../kubepods-burstable-pod{LOW}.slice/cri-containerd-{ID}.scope",
            id="systemd, seen from another pod's cgroup namespace",
        ),
        pytest.param(f"/../../pod{UID}/{ID}", id="cgroupfs, seen from another pod's cgroup namespace"),
        pytest.param(
            f"/kubepods/pod{UID}/{ID}/system.slice/ssh.service", id="an init system inside the container"
        ),
        pytest.param(f"/kubepods/pod{UID}/{ID}/kubepods/pod{OTHER}/x", id="a name made inside the container"),
    ],
)
def test_the_pod_is_read_from_the_path(path: str) -> None:
    assert owner_of(f"0::{path}\n").uid == UID


def test_in_cgroup_v1_the_pod_is_found_in_every_hierarchy_of_the_kubelet() -> None:
    lines = (
        f"13:misc:/\n12:pids:/kubepods/burstable/pod{UID}/{ID}\n"
        f"11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n"
        f"1:name=systemd:/kubepods/burstable/pod{UID}/{ID}\n0::/\n"
    )
    assert owner_of(lines).uid == UID


def test_the_uid_of_a_static_pod_has_no_dashes() -> None:
    assert owner_of(f"0::/kubepods/burstable/pod{STATIC}/{ID}").uid == STATIC


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("0::/user.slice/user-1000.slice/session-4.scope\n", "session-4.scope"),
        ("0::/system.slice/ssh.service\n", "ssh.service"),
        ("0::/../../../../system.slice/docker-5c5c.scope\n", "docker-5c5c.scope"),
        (f"0::/user.slice/user-1000.slice/kubepods-pod{LOW}.slice/x.scope\n", "x.scope"),
        (f"0::/system.slice/tripod{UID}\n", f"tripod{UID}"),
        ("12:pids:/system.slice/ssh.service\n0::/\n", "ssh.service"),
        (f"0::/system.slice/pod{UID}.service\n", f"pod{UID}.service"),
        ("0::/\n", ""),
        ("", ""),
        ("no colons at all", ""),
        ("0::/kubepods/burstable/podnotauid/c\n", "c"),
    ],
)
def test_a_process_outside_pods_is_reported_by_the_name_of_its_cgroup(text: str, unit: str) -> None:
    assert owner_of(text) == ProcessOwner(None, unit)
