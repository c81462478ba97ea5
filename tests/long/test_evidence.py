"""What a failed test leaves behind: the state of its cluster at that moment, and all of its logs."""

import shutil
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.product import Parts
from devcluster.wait import poll
from tests.e2e.playground import Playground
from tests.laws.live import LiveWatch
from tests.patience import PATIENCE
from tests.running import evidence
from tests.running.summary import LINES, Section, shorten

pytestmark = pytest.mark.e2e

ASSERTION = Section("assertion", ("E  assert 0",))


def test_evidence_has_objects_events_what_has_crashed_and_the_end_of_each_log(
    cluster: Cluster, parts: Parts, playground: Playground, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    playground.simple("one")
    playground.await_phase(["one"])
    ended = cluster.spawn("ends", [shutil.which("false") or "false"])
    assert poll(lambda: ended.exited == 1, seconds=PATIENCE)
    collected = evidence.collect(request.node, tmp_path)
    sections = {section.title: section for section in collected.sections_with(ASSERTION)}

    (pod,) = sections[f"pods of {playground.namespace}"].lines[1:]
    assert all(word in pod for word in ("one", "Running", *playground.assignment("one")["main"]))
    assert [line.split()[:3] for line in sections["nodes"].lines[1:]] == [
        ["node-a", "True", "4"],
        ["node-b", "True", "4"],
    ]
    assert any("pod/one" in line for line in sections["events"].lines)
    assert any(line.startswith("ends ended with 1") for line in sections["crashed or restarted"].lines)
    for name in (*parts.logs(), "ends"):
        assert len(sections[f"log of {name}"].lines) <= 15
    assert len(shorten(list(sections.values()))) <= LINES

    assert collected.logs
    assert collected.logs.is_relative_to(tmp_path)
    assert {"kube-apiserver.log", "ends.log", evidence.NAME} <= {
        file.name for file in collected.logs.iterdir()
    }
    assert "E  assert 0" in (collected.logs / evidence.NAME).read_text()
    collected.discard()
    assert not collected.logs.exists()


def test_evidence_is_gathered_though_the_api_server_does_not_answer(
    cluster: Cluster, playground: Playground, laws: LiveWatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert playground
    laws.fault("the API server is stopped")
    cluster.pause("kube-apiserver")
    try:
        sections = {section.title: section for section in evidence.collect(request.node, tmp_path).sections}
    finally:
        cluster.resume("kube-apiserver")
        laws.fault("the API server goes on")
    assert len(sections["nodes"].lines) >= 1
    assert "READY" not in sections["nodes"].lines[0]
    assert sections["log of extender"].lines
