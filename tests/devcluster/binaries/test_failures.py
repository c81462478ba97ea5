import pytest

from devcluster.binaries.failures import LINES_SHOWN, message


@pytest.mark.parametrize(
    ("output", "advice"),
    [
        (
            "# github.com/seccomp/libseccomp-golang\nPackage libseccomp was not found",
            "devcluster.hostpackages",
        ),
        ('cgo: C compiler "gcc" not found: exec: "gcc": executable file not found in $PATH', "C compiler"),
        ("go: k8s.io/kubernetes@v1.37.1: dial tcp: lookup somewhere: no such host", "needs the network"),
        ("compile: writing output: write $WORK/b001/_pkg_.a: no space left on device", "disk is full"),
        ("link: signal: killed", "Memory ran out"),
        ("missing go.sum entry for module providing package k8s.io/api", "go mod tidy"),
    ],
)
def test_a_known_failure_names_the_remedy(output: str, advice: str) -> None:
    assert advice in message("Building it", 1, output.splitlines())


def test_a_failure_names_what_failed_and_ends_with_gos_last_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    reported = message("Building etcd v3.6.8", 2, lines)
    assert reported.startswith("Building etcd v3.6.8 failed with exit status 2. Go said:\n")
    assert reported.splitlines()[1:] == [f"    {line}" for line in lines[-LINES_SHOWN:]]


def test_lines_that_go_repeats_are_reported_once() -> None:
    reported = message("Building it", 1, ["refused", "refused", "", "refused", "no such host"])
    assert reported.splitlines()[1:] == ["    refused", "    no such host"]
