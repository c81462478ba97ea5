"""docs/extender.md: its commands work, its configuration is the chart's, what it names there is."""

import re
import subprocess
from pathlib import Path

import msgspec
import yaml

from booking.controller.settings import ControllerSettings
from cluster import names
from docs.tables.markdown import ROOT
from extender import existing, leader_election
from extender.http_server import decision_log
from extender.settings import Settings
from tests.fakes.certificates import Signed

TEXT = (ROOT / "docs" / "extender.md").read_text()
WRITTEN = re.sub(r"<!-- generated: .*?<!-- end -->", "", TEXT, flags=re.DOTALL)
"""What people have written."""
RUN_ELSEWHERE = {
    "kubectl gpu why POD": ("tests/booking/cli/test_status.py", '"why"'),
}
"""Command -> the file that runs it, and how it does."""


def test_the_certificates_of_the_steps_are_what_the_two_sides_need(tmp_path: Path) -> None:
    (commands,) = re.findall(r"<!-- tested: certificates -->\n +```bash\n(.*?)```", TEXT, re.DOTALL)
    subprocess.run(["bash", "-euc", commands], cwd=tmp_path, check=True, capture_output=True)
    authority = Signed(tmp_path / "ca.crt", tmp_path / "ca.key")
    for name, purpose in (("server", "sslserver"), ("scheduler", "sslclient")):
        subprocess.run(
            ["openssl", "verify", "-purpose", purpose, "-CAfile", str(authority.certificate), f"{name}.crt"],
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )


def test_every_command_is_run_by_a_test() -> None:
    in_line = set(re.findall(r"`((?:kubectl|curl|helm|openssl) [^`]*)`", re.sub(r"\s+", " ", WRITTEN)))
    assert in_line == RUN_ELSEWHERE.keys()
    assert all(words in (ROOT / file).read_text() for file, words in RUN_ELSEWHERE.values())
    blocks = re.findall(r"(?:<!-- tested: ([a-z]+) -->\n *)?```([a-z]*)\n(?=.)", WRITTEN)
    # The first is typed by tests/long/installed/test_modes.py.
    assert blocks == [("paste", "bash"), ("certificates", "bash")]


def test_every_named_setting_exists() -> None:
    fields = {*Settings.__struct_fields__, *ControllerSettings.__struct_fields__}
    named = set(re.findall(rf"{names.SETTINGS_PREFIX}[A-Z_]+", TEXT))
    assert named - {names.setting(field) for field in fields} == set()


def test_every_named_value_of_the_chart_exists() -> None:
    values = yaml.safe_load((ROOT / "charts/gpu-booking/values.yaml").read_text())["scheduler"]
    named = set(re.findall(r"`scheduler\.([A-Za-z]+)", WRITTEN)) - {"crt", "key"}
    assert named
    assert named <= values.keys()


def test_the_documented_times_ports_and_leases_are_those_of_the_code() -> None:
    text = re.sub(r"\s+", " ", WRITTEN)
    defaults = {field.name: field.default for field in msgspec.structs.fields(Settings)}
    assert f"A new leader waits {['no', 'one', 'two', 'three'][int(existing.GRACE_SECONDS)]} seconds" in text
    assert f"for the Lease's {leader_election.TIMING.duration} s" in text
    assert existing.EVERY == 10
    assert "Renewed files are read within ten seconds" in text
    assert f"by the Lease `{names.EXTENDER_LEASE}`" in text
    assert f"by the Lease `{names.SCHEDULER_LEASE}`" in text
    assert f"`http://127.0.0.1:{defaults['port']}{decision_log.PATH}`" in text
    assert f"`/healthz` (port {defaults['probe_port']})" in text
    assert decision_log.SIZE == 1000
    assert "The last thousand of them" in text
    assert "`a client is refused`" in text
