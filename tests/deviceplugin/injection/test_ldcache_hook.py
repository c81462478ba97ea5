"""The loader's cache of a container: the hook of our specification, and the script that it gives a shell."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from deviceplugin.injection.driver import Mount
from deviceplugin.injection.ldcache_hook import LOADERS, SHELL, hooks

FOLDER = "/opt/of-the-host/lib64"
"""Where no loader searches by itself."""
LIBRARY = Path("libm.so.6")
MOUNTS = (
    Mount(f"{FOLDER}/libcuda.so.1", f"{FOLDER}/libcuda.so.580.1"),
    Mount(f"{FOLDER}/libcuda.so.580.1", f"{FOLDER}/libcuda.so.580.1"),
    Mount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),
)


def a_host(folder: Path, *programs: str) -> Path:
    for program in programs:
        path = folder / program.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("/nowhere/that/we/see")
    return folder


def test_the_folders_of_the_libraries_are_passed_to_the_host_s_ldconfig(tmp_path: Path) -> None:
    host = a_host(tmp_path, SHELL, "/sbin/ldconfig")
    (hook,) = hooks(MOUNTS, root=host, host_root=Path("/"))
    assert (hook["hookName"], hook["path"]) == ("createContainer", SHELL)
    assert hook["args"][:2] == ["sh", "-c"]
    assert hook["args"][4:] == ["/sbin/ldconfig", FOLDER]


def test_the_ldconfig_binary_is_preferred_to_a_distribution_s_script_of_that_name(tmp_path: Path) -> None:
    (hook,) = hooks(MOUNTS, root=a_host(tmp_path, SHELL, *LOADERS), host_root=Path("/"))
    assert hook["args"][4] == "/sbin/ldconfig.real"


@pytest.mark.parametrize("programs", [(), (SHELL,), ("/sbin/ldconfig",)])
def test_a_host_that_cannot_run_the_hook_gets_none(tmp_path: Path, programs: tuple[str, ...]) -> None:
    assert hooks(MOUNTS, root=a_host(tmp_path, *programs), host_root=Path("/")) == []


def test_no_hook_is_made_for_a_driver_outside_the_host_or_without_libraries(tmp_path: Path) -> None:
    host = a_host(tmp_path, SHELL, *LOADERS)
    assert hooks(MOUNTS, root=host, host_root=Path("/run/nvidia/driver")) == []
    assert hooks(MOUNTS[2:], root=host, host_root=Path("/")) == []


class Bundle:
    """A container that is being created, as the runtime has written it to the disk."""

    def __init__(self, folder: Path, root: str = "rootfs") -> None:
        self.folder = folder / "bundle"
        self.root = self.folder / root
        (self.root / "etc").mkdir(parents=True)
        library = next(path for path in map(Path, folders_of_this_host()) if (path / LIBRARY).exists())
        there = self.root / FOLDER.lstrip("/")
        there.mkdir(parents=True)
        shutil.copy(library / LIBRARY, there / LIBRARY)
        process = {"args": ['"root":{"path":"/forged"}'], "env": ['A="bundle":"/forged"']}
        config = {"ociVersion": "1.2.0", "process": process, "root": {"path": str(self.root)}}
        (self.folder / "config.json").write_text(_text(config))

    def state(self, **more: object) -> str:
        known = {"ociVersion": "1.2.0", "id": "c", "status": "creating", "pid": 1, "bundle": str(self.folder)}
        return _text(known | more)

    def run_hook(self, state: str) -> None:
        """Run it as the runtime does, which waits for its end; a failure would end the container."""
        (hook,) = hooks(MOUNTS, root=Path("/"), host_root=Path("/"))
        subprocess.run(hook["args"], executable=hook["path"], input=state, text=True, check=True, env={})

    def cached(self) -> bool:
        """Whether the loader's cache has the library of the host's folder."""
        path = self.root / "etc" / "ld.so.cache"
        return path.exists() and f"{FOLDER}/{LIBRARY}".encode() in path.read_bytes()


def _text(what: object) -> str:
    """As Go writes it."""
    return json.dumps(what, separators=(",", ":")) + "\n"


def folders_of_this_host() -> Iterator[str]:
    yield from ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib64", "/lib64")


def test_the_loader_of_the_container_finds_the_libraries(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path)
    assert not bundle.cached()
    bundle.run_hook(bundle.state(annotations={"bundle": "/forged", "x": '"bundle":"/forged"'}))
    assert bundle.cached()


def test_a_root_outside_the_bundle_is_read_from_the_container_s_configuration(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path, root="../elsewhere")
    bundle.run_hook(bundle.state())
    assert bundle.cached()


def test_a_container_without_etc_still_starts(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path)
    shutil.rmtree(bundle.root / "etc")
    bundle.run_hook(bundle.state())
    assert sorted(path.name for path in bundle.root.iterdir()) == ["opt"]


@pytest.mark.parametrize("state", ["", "{}", '{"bundle":"/there/is/none"}', "not even JSON"])
def test_an_unreadable_state_does_not_end_the_container(tmp_path: Path, state: str) -> None:
    bundle = Bundle(tmp_path)
    bundle.run_hook(state)
    assert not bundle.cached()


@pytest.mark.parametrize("link", ["etc", "etc/ld.so.cache", "etc/ld.so.conf"])
def test_no_link_of_an_image_leads_out_of_its_root(tmp_path: Path, link: str) -> None:
    bundle, outside = Bundle(tmp_path), tmp_path / "outside"
    outside.mkdir()
    (outside / "ld.so.cache").write_text("ours")
    place = bundle.root / link
    if place.is_dir():
        place.rmdir()
    target = outside if link == "etc" else outside / "ld.so.cache"
    place.symlink_to(target)
    bundle.run_hook(bundle.state())
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("ld.so.cache", "ours")]
