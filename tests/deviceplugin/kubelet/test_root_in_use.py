"""Where the kubelet's root folder is, by the command lines of a node."""

from pathlib import Path

import pytest

from deviceplugin.kubelet.root_in_use import root_in_use


def running(proc_root: Path, *lines: str) -> Path:
    for number, line in enumerate(lines, start=10):
        folder = proc_root / str(number)
        folder.mkdir(parents=True)
        (folder / "cmdline").write_bytes("\0".join(line.split()).encode() + b"\0")
    return proc_root


@pytest.mark.parametrize(
    ("line", "root"),
    [
        ("/usr/bin/kubelet --config=/etc/kubelet.yaml", "/var/lib/kubelet"),
        ("kubelet --root-dir=/data/kubelet --v=2", "/data/kubelet"),
        ("kubelet --root-dir /data/kubelet", "/data/kubelet"),
        ("kubelet -root-dir=/a --root-dir=/b", "/b"),
        ("/usr/local/bin/k3s agent --kubelet-arg=root-dir=/data/k3s", "/data/k3s"),
    ],
)
def test_the_last_option_of_the_command_line_counts(tmp_path: Path, line: str, root: str) -> None:
    assert root_in_use(running(tmp_path, "/sbin/init", line)) == Path(root)


@pytest.mark.parametrize(
    "lines",
    [
        (),
        ("dockerd --root-dir=/data",),
        ("kubelet", "kubelet --root-dir=/data"),
    ],
    ids=["none", "of another program", "two kubelets"],
)
def test_nothing_is_said_where_it_is_not_certain(tmp_path: Path, lines: tuple[str, ...]) -> None:
    assert root_in_use(running(tmp_path, *lines)) is None
