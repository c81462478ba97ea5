"""What is built from which pinned Go modules, and the key under which each tool's executables are kept.

Versions are kept in one place: `modules/<tool>/go.mod`, with its go.sum. Every tool has modules of its own,
because one common module graph would mix the versions that each of them was tested with. Pure, except for
reading those files.
"""

import hashlib
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from devcluster.binaries.errors import BuildError

MODULES = Path(__file__).parent / "modules"
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One Go build: a folder of pinned modules and the executables that come out of it."""

    name: str
    """The folder below `modules/`."""
    module: str
    """The module in its go.mod whose version is the tool's; empty for a program of our own alone."""
    outputs: tuple[tuple[str, str], ...]
    """(name that `go build` gives, name that we give) of every executable."""
    packages: str = "tool"
    """What to build: `tool` is every `tool` line of the go.mod, `.` the folder's own package."""
    links: tuple[str, ...] = ()
    """Further names for the first executable."""
    tags: str = ""
    cgo: bool = False
    version_packages: tuple[str, ...] = ()
    """Packages whose gitVersion, gitMajor, gitMinor and gitTreeState the linker sets."""
    version_variables: tuple[str, ...] = ()
    """Variables that the linker sets to the version."""
    seconds: float = 60.0
    """How long fetching and building takes on two quiet cores; estimates begin with it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every name that must be there when the build is over, links included."""
        return (*(ours for _, ours in self.outputs), *self.links)


# Without the version packages kubectl and the nodes call themselves v0.0.0.
NEWEST = Tool(
    name="kubernetes",
    module="k8s.io/kubernetes",
    outputs=(("kubernetes", "kubebox"),),
    packages=".",
    links=KUBERNETES_PROGRAMS,
    version_packages=("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"),
    seconds=397.0,
)

TOOLS = (
    Tool(name="etcd", module="go.etcd.io/etcd/server/v3", outputs=(("server", "etcd"),), seconds=46.0),
    # Without the seccomp tag runc starts only privileged pods; the tag needs cgo and libseccomp.
    Tool(
        name="runc",
        module="github.com/opencontainers/runc",
        outputs=(("runc", "runc"),),
        tags="seccomp",
        cgo=True,
        seconds=12.0,
    ),
    Tool(
        name="cni",
        module="github.com/containernetworking/plugins",
        outputs=(("bridge", "bridge"), ("host-local", "host-local"), ("portmap", "portmap")),
        seconds=3.0,
    ),
    Tool(
        name="containerd",
        module="github.com/containerd/containerd/v2",
        outputs=(
            ("containerd", "containerd"),
            ("containerd-shim-runc-v2", "containerd-shim-runc-v2"),
            ("ctr", "ctr"),
        ),
        seconds=61.0,
    ),
    # Renders and installs the chart. Without the variable it calls itself v4.3.
    Tool(
        name="helm",
        module="helm.sh/helm/v4",
        outputs=(("helm", "helm"),),
        version_variables=("helm.sh/helm/v4/internal/version.version",),
        seconds=110.0,
    ),
    NEWEST,
)
"""In the order of building: the short ones first, so that a missing header shows within a minute."""

OLDER = {
    minor: replace(NEWEST, name=f"kubernetes-{minor}")
    for minor in ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
}
"""Older Kubernetes, by minor version: a cluster that asks for one builds it, once. Each is a release all of
whose staging modules can be fetched, or its go.mod names the few that are an earlier patch's."""
KWOK = Tool(name="kwok", module="sigs.k8s.io/kwok", outputs=(("kwok", "kwok"),))
"""Simulates the kubelets of many nodes. No cluster needs it: tests that do ask for it separately."""
NULL_EXTENDER = Tool(
    name="null-extender", module="", outputs=(("null-extender", "null-extender"),), packages=".", seconds=5.0
)
"""An extender that decides nothing: the floor of what one can cost. Measurements ask for it separately."""
KIND = Tool(name="kind", module="sigs.k8s.io/kind", outputs=(("kind", "kind"),))
"""Makes clusters of Docker containers. Here a test has it read `kind/cluster.yaml`, without a cluster."""


def version(tool: Tool, modules: Path = MODULES) -> str:
    """The pinned version of a tool, such as `v1.37.1`, read from its go.mod."""
    if not tool.module:
        return "v0.1.0"
    text = (modules / tool.name / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require)?\s*{re.escape(tool.module)} (v\S+)", text, flags=re.MULTILINE)
    if found is None:
        raise BuildError(f"modules/{tool.name}/go.mod requires no {tool.module}: run `go get` for it there.")
    return found.group(1)


def oldest_go(modules: Path = MODULES) -> tuple[int, int, int]:
    """The oldest Go that can build everything: the highest `go` line of all go.mod files."""
    lines = (
        re.search(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for file in modules.glob("*/go.mod")
    )
    return max((int(line[1]), int(line[2]), int(line[3] or 0)) for line in lines if line)


def build_flags(tool: Tool, pinned: str) -> tuple[str, ...]:
    """The flags of `go build` that decide what comes out, for a tool at its pinned version."""
    _, minor, _ = pinned.removeprefix("v").split(".", 2)
    facts = {"gitVersion": pinned, "gitMajor": pinned[1], "gitMinor": minor, "gitTreeState": "clean"}
    settings = [
        f"-X {package}.{name}={value}" for package in tool.version_packages for name, value in facts.items()
    ]
    settings += [f"-X {variable}={pinned}" for variable in tool.version_variables]
    flags = ("-trimpath", "-buildvcs=false", f"-ldflags={' '.join(['-s', '-w', *settings])}")
    return (*flags, f"-tags={tool.tags}") if tool.tags else flags


def key(tool: Tool, modules: Path = MODULES, *, machine: str = "") -> str:
    """The name under which a tool is kept: it changes when anything that decides its executables does.

    It does not depend on the other tools, so that a new version of one leaves the others as they are.
    """
    pinned = version(tool, modules)
    digest = hashlib.sha256()
    folder = modules / tool.name
    files = sorted(
        file for file in folder.rglob("*") if file.suffix in {".mod", ".sum", ".go"} and file.is_file()
    )
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)} {len(content)}\n".encode() + content)
    made = (tool.outputs, tool.links, tool.packages, tool.cgo, build_flags(tool, pinned))
    digest.update(f"{made}\n{machine or platform.machine()}".encode())
    return f"{tool.name}-{pinned}-{digest.hexdigest()[:16]}"


def common_key(keys: Iterable[str]) -> str:
    """The name of the folder that has the executables of all tools together, from the tools' keys."""
    return f"all-{hashlib.sha256(' '.join(keys).encode()).hexdigest()[:16]}"
