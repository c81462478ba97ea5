import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import hostpackages
from devcluster.hostpackages import (
    CLUSTER_NEEDS,
    TESTS_NEEDS,
    VENV_NEEDS,
    Facts,
    Need,
    Plan,
    is_debian_like,
    is_there,
    plan,
    purpose_here,
)

ROOT = Path(__file__).parents[2]
IP = Need("command", "ip", "iproute2")
UNSHARE = Need("command", "unshare", "util-linux")
NSENTER = Need("command", "nsenter", "util-linux")
VENV = Need("module", "ensurepip", "{python}-venv")
READY = Facts(linux=True, root=True, python=(3, 12), debian_like=True, missing=())


def test_a_machine_that_has_everything_needs_nothing() -> None:
    assert plan(READY) == Plan()


def test_root_on_debian_installs_what_is_missing_each_package_once() -> None:
    facts = READY._replace(missing=(UNSHARE, IP, NSENTER))
    assert plan(facts) == Plan(install=("iproute2", "util-linux"))


def test_the_venv_package_is_that_of_the_running_python() -> None:
    assert plan(READY._replace(missing=(VENV,))).install == ("python3.12-venv",)


def test_another_distribution_gets_the_names_and_nothing_is_installed() -> None:
    decided = plan(READY._replace(debian_like=False, missing=(IP, VENV)))
    assert decided.install == ()
    assert "lacks ip, ensurepip" in decided.refusal
    assert "iproute2 python3.12-venv" in decided.refusal


def test_a_user_who_is_not_root_gets_the_apt_command_for_the_virtual_environment() -> None:
    decided = plan(READY._replace(root=False, missing=(VENV,)), "venv")
    assert decided.install == ()
    assert "apt-get install --no-install-recommends python3.12-venv" in decided.refusal


@pytest.mark.parametrize("purpose", ["cluster", "tests"])
def test_a_cluster_is_refused_without_root_even_when_nothing_is_missing(purpose: str) -> None:
    refusal = plan(READY._replace(root=False), purpose).refusal
    assert "needs root" in refusal
    assert "Missing" not in refusal


def test_a_cluster_without_root_also_reports_what_is_missing() -> None:
    assert "iproute2" in plan(READY._replace(root=False, missing=(IP,))).refusal


def test_tests_without_a_cluster_need_no_root() -> None:
    assert plan(READY._replace(root=False), "venv") == Plan()


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("missing", [(), (IP,)])
def test_an_old_python_is_refused_before_anything_is_installed(
    *, root: bool, missing: tuple[Need, ...]
) -> None:
    decided = plan(READY._replace(python=(3, 10), root=root, missing=missing))
    assert decided.install == ()
    assert "Python 3.10" in decided.refusal
    assert "3.11 or newer" in decided.refusal


def test_a_system_other_than_linux_is_refused() -> None:
    decided = plan(READY._replace(linux=False, missing=(IP,)))
    assert "Linux only" in decided.refusal
    assert decided.install == ()


@pytest.mark.parametrize(
    ("os_release", "expected"),
    [
        ("ID=debian\nVERSION_ID=12\n", True),
        ('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n', True),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', True),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', False),
        ("ID=notdebian\n", False),
        ("", False),
    ],
)
def test_debian_and_its_derivatives_are_recognised(os_release: str, *, expected: bool) -> None:
    assert is_debian_like(os_release) is expected


def test_a_command_is_found_in_any_of_the_folders_if_it_can_be_executed(tmp_path: Path) -> None:
    command = tmp_path / "ip"
    command.write_text("")
    command.chmod(0o644)
    assert not is_there(IP, ["/nowhere", str(tmp_path)])
    command.chmod(0o755)
    assert is_there(IP, ["/nowhere", str(tmp_path)])


def test_files_and_modules_are_looked_for_where_they_belong(tmp_path: Path) -> None:
    header = tmp_path / "seccomp.h"
    need = Need("file", str(header), "libseccomp-dev")
    assert not is_there(need, [])
    header.write_text("")
    assert is_there(need, [])
    assert is_there(need._replace(name=str(tmp_path / "seccomp.*")), [])
    assert not is_there(need._replace(name=str(tmp_path / "*.gpg")), [])
    assert is_there(Need("module", "json", "python"), [])
    assert not is_there(Need("module", "no_such_module_anywhere", "python"), [])


def test_a_cluster_needs_all_that_the_virtual_environment_needs() -> None:
    assert set(VENV_NEEDS) < set(CLUSTER_NEEDS)


def test_images_need_no_root_where_docker_is_and_say_so_where_it_is_not(tmp_path: Path) -> None:
    folders = [str(tmp_path)]
    assert purpose_here("images", folders) == "images"
    assert "Without Docker, images need root" in plan(READY._replace(root=False), "images").refusal
    docker = tmp_path / "docker"
    docker.write_text("")
    docker.chmod(0o755)
    assert purpose_here("images", folders) == "venv"
    assert purpose_here("cluster", folders) == "cluster"


def test_what_only_tests_use_comes_with_the_tests() -> None:
    packages = {need.package for need in set(TESTS_NEEDS) - set(CLUSTER_NEEDS)}
    assert packages == {"postgresql", "chromium", "prometheus"}


def run(*arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "devcluster.hostpackages", *arguments]
    environment = {"PATH": str(path)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_module_can_be_parsed_by_an_old_python_that_it_refuses() -> None:
    source = Path(str(hostpackages.__file__)).read_text()
    assert ast.parse(source, feature_version=(3, 7))


def test_an_unknown_purpose_is_answered_with_the_usage(tmp_path: Path) -> None:
    answer = run("everything", path=tmp_path)
    assert answer.returncode == 2
    assert answer.stderr.startswith("usage:")


def test_it_needs_only_the_standard_library_and_an_empty_package() -> None:
    program = (
        "import sys; before = set(sys.modules); import devcluster.hostpackages; import devcluster.apt;"
        " print(*sorted(name for name in set(sys.modules) - before"
        " if name.partition('.')[0] not in sys.stdlib_module_names))"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {program}"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert answer.stdout.split() == [
        *("cluster", "cluster.names"),
        *("devcluster", "devcluster.apt", "devcluster.hostpackages"),
    ]
