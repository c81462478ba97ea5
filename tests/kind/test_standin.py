"""The programs that stand in for those of a laptop, where callers run several at once."""

import subprocess

from devcluster.wait import poll
from tests.kind.conftest import Laptop


def test_a_refused_command_fails_only_when_all_that_run_with_it_were_called(laptop: Laptop) -> None:
    laptop.install("docker")
    docker, environment = (
        laptop.folder / "bin" / "docker",
        laptop.environment(refused="docker run", together=2),
    )
    first = subprocess.Popen([docker, "run", "one"], env=environment)
    assert poll(lambda: laptop.calls("docker", "run") or None, seconds=60)
    assert first.poll() is None
    assert subprocess.run([docker, "run", "two"], env=environment, check=False).returncode == 1
    assert first.wait(60) == 1
    assert laptop.calls() == [["docker", "run", "one"], ["docker", "run", "two"]]
