"""The state at the moment when a test failed: its cluster's objects, what has crashed, and all logs."""

import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from cluster import names
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError, tail
from devcluster.paths import CHECKOUT
from devcluster.product import Parts
from tests.e2e.testbed import Testbed
from tests.running.summary import Section

NAME: Final = "evidence.txt"
PATIENCE_SECONDS: Final = 10
"""For one request to an API server in an unknown state."""
WEIGHT: Final = 4
"""Of what says most about a failure: the assertion, the pods, what has crashed."""
_LOG_LINES: Final = 15
_LONGEST_NAME: Final = 150
_PODS: Final = (
    "custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName,"
    "REASON:.status.reason,DELETED:.metadata.deletionTimestamp,"
    rf"ASSIGNED:.metadata.annotations.{names.ASSIGNED.replace('.', chr(92) + '.')}"
)
_NODES: Final = (
    'custom-columns=NAME:.metadata.name,READY:.status.conditions[?(@.type=="Ready")].status,'
    rf"GPUS:.status.allocatable.{names.GPU_RESOURCE.replace('.', chr(92) + '.')},"
    'WHY:.status.conditions[?(@.type=="Ready")].message'
)


@dataclass(frozen=True)
class Evidence:
    """The state at that moment.

    Args:
        sections: of the cluster; none where the test has none.
        logs: where all of its logs are kept.
    """

    sections: tuple[Section, ...]
    logs: Path | None

    def sections_with(self, assertion: Section) -> tuple[Section, ...]:
        """All that there is to report; next to the logs it is written down uncut."""
        sections = (assertion, *self.sections)
        if self.logs is not None:
            lines = (
                line for s in sections for line in (f"{s.title}:", *(f"  {text}" for text in s.lines), "")
            )
            self.logs.joinpath(NAME).write_text("\n".join(lines))
        return sections

    def discard(self) -> None:
        """Nothing failed: keep nothing."""
        if self.logs is not None:
            shutil.rmtree(self.logs, ignore_errors=True)


NOTHING: Final = Evidence((), None)
"""Of a test without a cluster."""


def collect(item: pytest.Item, kept: Path) -> Evidence:
    """The present state of a test's cluster.

    Args:
        item: the test, with the fixtures that it has got so far.
        kept: the folder below which its cluster's logs are copied to a folder of its own.
    """
    fixtures: dict[str, Any] = getattr(item, "funcargs", None) or {}
    cluster = _first(fixtures.values(), Cluster)
    if cluster is None:
        return NOTHING
    parts = _first(fixtures.values(), Parts) or _parts_of(fixtures.values())
    namespace: str | None = getattr(fixtures.get("playground"), "namespace", None)
    logs = keep(cluster, kept / folder_of(item.nodeid))
    where = (f"--namespace={namespace}",) if namespace else ("--all-namespaces",)
    crashed = _crashed(cluster, parts)
    sections = (
        Section(
            f"pods of {namespace or 'all namespaces'}",
            _kubectl_get(cluster, "pods", *where, "--output", _PODS),
            weight=WEIGHT,
        ),
        Section("nodes", _kubectl_get(cluster, "nodes", "--output", _NODES)),
        Section("events", _kubectl_get(cluster, "events", *where, "--sort-by=.lastTimestamp"), newest=True),
        Section("crashed or restarted", tuple(crashed), weight=WEIGHT),
        *_logs_of(parts, [line.partition(" ")[0] for line in crashed], cluster),
        Section("all logs", (f"kept in {_short(logs)}",) if logs else ()),
    )
    return Evidence(sections, logs)


def folder_of(test: str) -> str:
    """Name of a folder for a test."""
    words = re.sub("[^A-Za-z0-9_.-]+", "-", test.removeprefix("tests/")).strip("-.")
    return words[:_LONGEST_NAME]


def keep(cluster: Cluster, folder: Path) -> Path | None:
    """Copy all logs of a cluster into a folder, in place of an earlier one; None where it has none."""
    logs = cluster.state / "logs"
    shutil.rmtree(folder, ignore_errors=True)
    if not logs.exists():
        return None
    shutil.copytree(logs, folder)
    return folder


def reason_of(error: BaseException | None) -> str:
    """An error in one line; of a group its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return ""
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def assertion_of(lines: Sequence[str]) -> list[str]:
    """Of what pytest says about a failure: the error, and where it came about; else all of it."""
    place = re.compile(r"^\S+\.py:\d+: ")
    found = [line for line in lines if line.startswith("E ") or place.match(line)]
    return found or [line for line in lines if line.strip()]


def _parts_of(values: Iterable[Any]) -> Parts | None:
    """Of a test that has not asked for them itself: those of the testbed that it is played on."""
    bed = _first(values, Testbed)
    with suppress(AssertionError):  # it was spoilt
        return bed.parts if bed else None
    return None


def _first(values: Iterable[Any], wanted: type) -> Any:
    return next((value for value in values if isinstance(value, wanted)), None)


def _kubectl_get(cluster: Cluster, *words: str) -> tuple[str, ...]:
    """What kubectl shows, or why it does not."""
    argv, environment = cluster.kubectl_command("get", *words, f"--request-timeout={PATIENCE_SECONDS // 2}s")
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return (f"the API server does not answer within {PATIENCE_SECONDS} s",)
    except OSError as error:
        return (f"kubectl cannot be run: {error}",)
    return tuple((done.stdout if done.returncode == 0 else done.stderr).splitlines())


def _crashed(cluster: Cluster, parts: Parts | None) -> list[str]:
    """Processes of the cluster that have ended, or ended by themselves and were started again."""
    try:
        processes = cluster.daemons
        crashed = parts.crashed() if parts is not None else []
        lines = []
        for name, daemon in sorted(processes.items()):
            exited, restarted = daemon.exited, daemon.restarted
            if exited is None and not restarted and name not in crashed:
                continue
            ended = f"ended with {exited}" if exited is not None else "runs"
            lines.append(f"{name} {ended}, started again {restarted} times after it had ended by itself")
    except ClusterError as error:
        return str(error).splitlines()
    return lines


def _logs_of(parts: Parts | None, crashed: Iterable[str], cluster: Cluster) -> list[Section]:
    """The last lines of the log of each of our parts, and of whatever else has crashed."""
    try:
        files = dict(parts.logs()) if parts is not None else {}
        others = cluster.daemons
        files |= {name: others[name].log for name in crashed if name in others}
    except ClusterError as error:
        return [Section("logs", tuple(str(error).splitlines()))]
    return [
        Section(
            f"log of {name}", tuple(line.strip() for line in tail(file, _LOG_LINES).splitlines()), newest=True
        )
        for name, file in files.items()
    ]


def _short(path: Path) -> Path:
    return path.relative_to(CHECKOUT) if path.is_relative_to(CHECKOUT) else path
