"""apt-get is a program that says what Debian's would say, and writes down how it was called."""

import os
import signal
from pathlib import Path

import pytest

from devcluster import apt
from devcluster.apt import AptError, Upgrade, install, no_services, upgrades

SIMULATED = """NOTE: This is only a simulation!
Inst libc6 [2.36-9+deb12u9] (2.36-9+deb12u14 Debian:12.11/oldstable [amd64])
Inst nftables (1.0.6-2+deb12u2 Debian:12.11/oldstable [amd64]) []
Conf nftables (1.0.6-2+deb12u2 Debian:12.11/oldstable [amd64])
"""


class Machine:
    """A machine with an apt-get of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.policy = folder / "policy-rc.d"
        self.calls = folder / "calls"
        self.log = folder / "cache" / "apt.log"
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setenv("GPU_BOOKING_CACHE", str(folder / "cache"))
        self.apt_get("")

    def apt_get(self, *lines: str) -> None:
        program = self.folder / "apt-get"
        services = f'$([ -x {self.policy} ] && {self.policy}; echo "services $?")'
        lines = (f'echo "$DEBIAN_FRONTEND {services} $*" >> {self.calls}', "echo apt talks", *lines)
        program.write_text("\n".join(["#!/bin/sh", *lines]))
        program.chmod(0o755)

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_packages_are_installed_without_questions_services_or_output(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    install(("gcc", "nftables"), policy=machine.policy)
    wanted = "install -y --no-install-recommends --no-upgrade --no-remove"
    assert machine.called() == [
        "noninteractive services 1 update -q",
        f"noninteractive services 1 {wanted} --simulate gcc nftables",
        f"noninteractive services 101 {wanted} -q gcc nftables",
    ]
    assert not machine.policy.exists()
    assert machine.log.read_text() == "apt talks\n" * 3
    (line,) = capsys.readouterr().out.splitlines()
    assert str(machine.log) in line


def test_a_package_that_is_there_is_not_upgraded_unless_it_is_allowed(machine: Machine) -> None:
    machine.apt_get(f'case "$*" in *--simulate*) cat <<END\n{SIMULATED}END\nesac')
    with pytest.raises(
        AptError,
        match=r"upgrade 1 .*: libc6 \(2\.36\S+ to 2\.36\S+14\)\. Nothing was changed\..*UPGRADE=1`",
    ):
        install(("nftables",), again="make run UPGRADE=1", policy=machine.policy)
    assert len(machine.called()) == 2
    install(("nftables",), upgrading=True, policy=machine.policy)
    assert len(machine.called()) == 5


def test_upgrades_are_distinguished_from_new_packages() -> None:
    assert upgrades(SIMULATED) == [Upgrade("libc6", "2.36-9+deb12u9", "2.36-9+deb12u14")]


def test_a_failing_apt_get_is_reported_with_the_end_of_its_output_and_no_policy_stays(
    machine: Machine,
) -> None:
    machine.apt_get('case "$*" in *" -q gcc") echo "E: no room"; exit 100;; esac')
    with pytest.raises(
        AptError, match=r"(?s)-q gcc` failed with exit status 100\..*apt\.log.*\n    E: no room$"
    ):
        install(("gcc",), policy=machine.policy)
    assert not machine.policy.exists()


def test_a_policy_of_the_machines_own_stays_and_one_of_a_killed_run_goes(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    with no_services(policy):
        assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    assert policy.exists()
    policy.write_text(apt.FORBIDS)
    with no_services(policy):
        assert os.access(policy, os.X_OK)
    assert not policy.exists()


def test_the_policy_goes_when_make_is_ended(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with pytest.raises(SystemExit), no_services(policy):
        os.kill(os.getpid(), signal.SIGTERM)
    assert not policy.exists()


def test_without_a_folder_for_it_the_output_goes_to_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = apt.log_file({"GPU_BOOKING_CACHE": str(tmp_path / "file")})
    assert found.read_text() == ""
    assert found.parent != tmp_path
    found.unlink()
