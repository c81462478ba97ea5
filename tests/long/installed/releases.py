"""The chart's releases, one after the other, by the commands of docs/operations."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

from cluster import names
from devcluster.cluster import Cluster
from devcluster.paths import CHECKOUT
from devcluster.product import chart
from tests.architecture import commands

SAVING, UPGRADING, BACK, REMOVING = commands.LIFECYCLE
NEXT: Final = "0.1.99"
"""Version of the release after this one."""
OF_KUBERNETES: Final = {
    "ConfigMap kube-root-ca.crt",
    "ServiceAccount default",
    f"Namespace {names.NAMESPACE}",
}
"""What Kubernetes makes in every namespace, and what it was not asked to remove."""
NO_TRACE: Final = {"Event", "APIService"}
"""Kinds that end by themselves, or with the custom resource."""


class Releases:
    """A terminal in which somebody types what the documents say."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Args: folder: for a chart that has changed since, and for what Helm keeps."""
        self._cluster = cluster
        self._changed = folder / "changed"
        argv, environment = cluster.kubectl_command()
        programs = folder / "programs"
        programs.mkdir()
        kubectl = programs / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {" ".join(argv)} "$@"\n')
        kubectl.chmod(0o755)
        (programs / "helm").symlink_to(cluster.program("helm"))
        kept = {"KUBECONFIG": str(cluster.kubeconfig), "HOME": str(folder)}
        self._environment = environment | kept | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def commands_in(self, heading: str) -> list[str]:
        """The commands of a section."""
        return commands.lifecycle(heading)

    def type(self, heading: str, *starts: str, changed: bool = False) -> str:
        """Every command of a section that begins so, in its order; what they print.

        Args:
            heading: of the section.
            starts: how the commands begin; of several that begin so the shortest.
            changed: whether the checkout is that of the next release.
        """
        printed = []
        for start in starts:
            command = min((one for one in self.commands_in(heading) if one.startswith(start)), key=len)
            printed.append(self._run(command, self._next() if changed else CHECKOUT))
        return "\n".join(printed)

    def type_all(self, heading: str, file: str, here: Path) -> str:
        """Every command of kubectl's in a section, one after the other; what they print.

        Args:
            heading: of the section.
            file: that the document has them write and read in the reader's folder.
            here: where it is in place of that.
        """
        every = [one.replace(f" {file}", f" {here}") for one in self.commands_in(heading)]
        return "\n".join(self._run(one, CHECKOUT) for one in every if one.startswith("kubectl "))

    def _run(self, script: str, checkout: Path) -> str:
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", script],
            cwd=checkout,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _next(self) -> Path:
        """A checkout of the next release: another version, a setting and a column that there were not."""
        here = self._changed / "charts" / names.PRODUCT
        if not here.exists():
            shutil.copytree(chart.CHART, here)
            version = here / "Chart.yaml"
            version.write_text(
                re.sub(r"^(version|appVersion): .*", rf"\1: {NEXT}", version.read_text(), flags=re.MULTILINE)
            )
            values = here / "values.yaml"
            values.write_text(values.read_text().replace("restartCostSeconds: 60", "restartCostSeconds: 61"))
            resource = here / "files" / "bookings.yaml"
            column = "      additionalPrinterColumns:\n"
            added = f"{column}        - {{name: Next, type: string, jsonPath: .spec.user}}\n"
            resource.write_text(resource.read_text().replace(column, added))
        return self._changed

    # --- what is there ---------------------------------------------------------------------------------
    def left(self) -> set[str]:
        """Kind and name of everything in the cluster that is ours by its name, its label or its namespace."""
        listed = self._cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
        words = ("get", ",".join(listed), "--all-namespaces", "--ignore-not-found", "--output=json")
        found = json.loads(self._cluster.kubectl(*words))["items"]
        return {f"{one['kind']} {one['metadata']['name']}" for one in found if _is_ours(one)} - OF_KUBERNETES

    def marks(self) -> set[str]:
        """Keys and finalizers of ours on nodes, and finalizers on pods."""
        words = ("get", "nodes,pods", "--all-namespaces", "--output=json")
        found = [one["metadata"] for one in json.loads(self._cluster.kubectl(*words))["items"]]
        finalizers = {key for meta in found for key in meta.get("finalizers", ()) if names.is_ours(key)}
        on_nodes = [meta for meta in found if "namespace" not in meta]
        keys = {key for meta in on_nodes for part in ("annotations", "labels") for key in meta.get(part, {})}
        return finalizers | {key for key in keys if names.is_ours(key)}


def _is_ours(found: dict[str, Any]) -> bool:
    meta, ours = found["metadata"], (names.PRODUCT, names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS)
    named = meta["name"].startswith(ours) or names.DOMAIN in meta["name"] or found["kind"] == "Booking"
    labelled = meta.get("labels", {}).get("app.kubernetes.io/name") == names.PRODUCT
    here = meta.get("namespace") == names.NAMESPACE
    return (named or labelled or here) and found["kind"] not in NO_TRACE
