"""Where a cluster's files lie, and where they cannot."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT, default_root, is_own, paths_of


def test_the_default_cluster_has_the_shortest_path_to_its_kubeconfig() -> None:
    assert paths_of("default", default_root()).kubeconfig == CHECKOUT / ".devcluster" / "kubeconfig"
    assert paths_of("other", default_root()).kubeconfig == CHECKOUT / ".devcluster" / "other" / "kubeconfig"


@pytest.mark.parametrize("root", ["/run/x", "/var/run/x", "/var/lib/x", "/var/log"])
def test_state_cannot_lie_where_nodes_have_folders_of_their_own(root: str) -> None:
    with pytest.raises(ClusterError, match="nodes see an empty"):
        paths_of("default", Path(root))


def test_a_state_folder_too_long_for_a_unix_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="too long for a unix socket"):
        paths_of("default", tmp_path / ("x" * 100))


def test_clusters_of_one_name_in_different_folders_are_different_to_the_kernel_and_to_the_lock() -> None:
    own = paths_of("default", default_root())
    elsewhere = paths_of("default", Path("/srv/state"))

    assert own.mark.startswith("gpu-booking.default@")
    assert elsewhere.mark.startswith("gpu-booking.default@")
    assert own.mark != elsewhere.mark
    assert own.lock != elsewhere.lock
    assert own.lock.parent == elsewhere.lock.parent
    assert elsewhere.kubeconfig == Path("/srv/state/default/kubeconfig")


def test_another_folder_for_temporary_files_is_another_folder_for_state() -> None:
    usual = paths_of("default")
    program = (
        "from devcluster.paths import paths_of; p = paths_of('default'); print(p.root, p.mark, p.kubeconfig)"
    )
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-c", program]
        environment = {**os.environ, "TMPDIR": folder}
        printed = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
        root, mark, kubeconfig = printed.split()

        assert Path(root).parent == Path(folder).resolve()
    assert mark != usual.mark
    assert Path(kubeconfig) == Path(root) / "default" / "kubeconfig" != usual.kubeconfig


def test_only_a_folder_of_this_user_that_is_no_link_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert is_own(tmp_path)
    assert not is_own(tmp_path / "link")
    assert not is_own(tmp_path / "none")
