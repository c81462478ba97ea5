"""Versions and distributions of Kubernetes: what works there, and what was run."""

from typing import Any, Final, NamedTuple

import yaml

from cluster import names
from docs.tables.markdown import ROOT, code, table

PRESETS: Final = ROOT / "charts" / names.PRODUCT / "files" / "distributions.yaml"


class Version(NamedTuple):
    """A minor version of Kubernetes."""

    minor: str
    works: str
    less: str
    played: tuple[str, ...]
    """Tests that ran on it, from the root of the checkout."""
    how: str


_WATCH: Final = (
    "The agent finds out from a watch of its node's pods who is being admitted, not from the kubelet itself"
)
_WRITTEN: Final = (
    "The controller, not the API server, hides GPUs in namespaces labelled `no-visible-devices`: while none"
    " answers, pods without a GPU are refused there"
)
_REJECTED: Final = (
    "A pod that a kubelet has rejected counts as one that waits until the API server knows it, mostly a"
    " moment later: one of the same size that was created in the same second, and comes meanwhile, is refused"
    " and comes back"
)
_NO_BOOKED_CLAIMS: Final = (
    "GPUs that nodes give by claims cannot be booked (`dra.booking`): the chart refuses it, for want of"
    " DeviceTaintRules"
)
_NO_SHARES: Final = (
    "Claims cannot share a GPU (`dra.shares`): the chart refuses it, for want of consumable capacity"
)
_NO_TAINTS: Final = (
    "Where nodes give GPUs by claims, an unhealthy one is left out of the ResourceSlices: the API server"
    " stores no taints"
)
_CLAIMS: Final = "tests/long/dra/test_older_versions.py"
_NO_CLAIMS: Final = "Nodes cannot give GPUs by claims (`dra.enabled`): the chart refuses it"
_STORY: Final = "tests/long/versions/test_story.py"
_MORE: Final = "tests/long/versions/more_stories.py"
_STAND_INS: Final = (
    "endpointslice and the types of the configuration of kube-scheduler, kube-proxy and"
    " kube-controller-manager"
)

VERSIONS: Final = (
    Version("1.37", "everything", "", ("tests/e2e/test_story.py",), "all tests on clusters, on 1.37.1"),
    Version(
        "1.36",
        "everything but booked claims",
        f"{_WATCH}. {_NO_BOOKED_CLAIMS}",
        (
            "tests/long/versions/real_1_36.py",
            _MORE,
            "tests/long/versions/test_emulated_1_36.py",
            _CLAIMS,
            _STORY,
        ),
        "1.36.3 itself, all of it but claims; and, with claims, 1.37.1 that passes for it"
        " (`--emulated-version`), kubelets 1.37.1 without the Pods API",
    ),
    Version(
        "1.35",
        "everything but booked claims",
        f"{_WATCH}. {_WRITTEN}. {_NO_BOOKED_CLAIMS}. {_NO_SHARES}. {_NO_TAINTS}",
        (
            "tests/long/versions/real_1_35.py",
            _MORE,
            "tests/long/versions/test_emulated_1_35.py",
            _CLAIMS,
            _STORY,
        ),
        "1.35.8 itself, all of it but claims; and, with claims, 1.37.1 that passes for it, kubelets 1.37.1"
        " without the Pods API",
    ),
    Version(
        "1.34",
        "everything but booked claims",
        f"{_WATCH}. {_WRITTEN}. {_NO_BOOKED_CLAIMS}. {_NO_SHARES}. {_NO_TAINTS}",
        (
            "tests/long/versions/test_real_1_34.py",
            "tests/long/versions/test_mixed_kubelets.py",
            "tests/long/versions/test_emulated_1_34.py",
            _CLAIMS,
            _STORY,
        ),
        "1.34.5 itself, all of it; its kubelet beside one of 1.37.1; and 1.37.1 that passes for it",
    ),
    Version(
        "1.33",
        "everything but claims",
        f"{_WATCH}. {_WRITTEN}. {_REJECTED}. {_NO_CLAIMS}",
        ("tests/long/versions/real_1_33.py", _MORE),
        "1.33.13 itself, all of it",
    ),
    *(
        Version(
            minor,
            "everything but claims",
            f"{_WATCH}. {_WRITTEN}. {_REJECTED}. {_NO_CLAIMS}",
            (f"tests/long/versions/real_{minor.replace('.', '_')}.py", _MORE),
            f"{patch} itself, but with {which} ({_STAND_INS}), which cannot all be fetched in {patch}",
        )
        for minor, patch, which in (
            ("1.32", "1.32.13", "four modules of 1.32.12"),
            ("1.31", "1.31.14", "four modules of 1.31.11"),
        )
    ),
    Version(
        "1.30",
        "everything but claims",
        f"{_WATCH}. {_WRITTEN}. {_REJECTED}. {_NO_CLAIMS}",
        ("tests/long/versions/test_real_1_30.py", _STORY),
        "1.30.14 itself, all of it",
    ),
)

_FOUND: Final = {
    "k3s": "by its version",
    "rke2": "by its version",
    "openshift": "by its API",
    "gke": "by its version",
    "eks": "by its version",
}
_REMARKS: Final = {
    "kubeadm": "The development clusters of this project are alike: upstream's programs, containerd 2."
    " kubeadm itself was not run",
    "k3s": "NVIDIA's runtime must be on the nodes where agents run (`nodeAgent.nodeSelector`). Its datastore"
    " without etcd was not tried",
    "rke2": "The same. Under SELinux `nodeAgent.seLinuxType` may be needed",
    "microk8s": "Its kubelet has another folder",
    "openshift": "CRI-O and SELinux: SecurityContextConstraints for the agents, and no ids of our own. Driver"
    " and runtime come from NVIDIA's GPU Operator; its device plugin must be off where ours gives out"
    " the GPUs",
    "talos": "Its namespaces enforce Pod Security `baseline`: label ours `privileged`, as Helm says after the"
    " installation",
    "gke": "The driver is where Google's installer puts it. Google's device plugin must go"
    " from nodes where ours gives out the GPUs",
    "eks": "With a CNI of your own: `controller.hostNetwork`",
    "aks": "Nothing of its own",
}


def versions_table() -> str:
    """Version, what works, what is less, and how that is known."""
    return table(
        ("Kubernetes", "works", "what is less", "how it was tested"),
        ((one.minor, one.works, one.less, _tested(one)) for one in VERSIONS),
    )


def _tested(one: Version) -> str:
    tests = ", ".join(code(test) for test in one.played)
    return f"{one.how}: {tests}" if tests else one.how


def distributions_table() -> str:
    """What each preset sets, and what was run."""
    presets: dict[str, dict[str, Any]] = yaml.safe_load(PRESETS.read_text())
    return table(
        ("`distribution`", "found by itself", "sets", "whose kube-scheduler", "what to know", "tested how"),
        (
            (
                code(name),
                _FOUND.get(name, "no"),
                _sets(preset),
                "ours alone" if preset.get("scheduler") == "managed" else "ours, or the cluster's own",
                _REMARKS[name],
                "run, by what it is alike" if name == "kubeadm" else "rendered only, never run",
            )
            for name, preset in presets.items()
        ),
    )


def _sets(preset: dict[str, Any]) -> str:
    values = {name: value for name, value in preset.items() if name not in {"ids", "scheduler", "security"}}
    return ", ".join(code(f"{name}: {value}") for name, value in values.items()) or "the chart's defaults"
