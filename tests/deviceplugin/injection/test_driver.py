"""Which of the driver's files go into a container."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.injection.driver import (
    BINARIES,
    BINARY_FOLDERS,
    DATA,
    FIRMWARE_FOLDERS,
    LIBRARY,
    LIBRARY_FOLDERS,
    Found,
    Mount,
    driver_version,
    find,
    library_under,
    plan,
)

LIB = "usr/lib/x86_64-linux-gnu"


def host(root: Path) -> Path:
    """A Debian machine with driver 580.159.04, and things that are not the driver's."""
    libraries = root / LIB
    libraries.mkdir(parents=True)
    for name in (
        "libcuda.so.580.159.04",
        "libnvidia-ml.so.580.159.04",
        "libc.so.6",
        "libnvidia-egl.so.1.1.9",
    ):
        (libraries / name).write_text(name)
    (libraries / "libcuda.so.1").symlink_to("libcuda.so.580.159.04")
    (libraries / "libcuda.so").symlink_to("libcuda.so.1")
    (libraries / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.159.04")
    (libraries / "libnvidia-dangling.so.1").symlink_to("libnvidia-dangling.so.580.159.04")
    binaries = root / "usr" / "bin"
    binaries.mkdir()
    for name in ("nvidia-smi", "nvidia-settings", "bash"):
        (binaries / name).write_text(name)
    (root / "lib").symlink_to("usr/lib")
    (root / "bin").symlink_to("usr/bin")
    return root


def test_files_for_egl_vulkan_and_optix_and_firmware_of_the_version_are_found(
    tmp_path: Path,
) -> None:
    wanted = (
        "etc/vulkan/implicit_layer.d/nvidia_layers.json",
        "usr/lib/firmware/nvidia/580.159.04/gsp_ga10x.bin",
        "usr/share/glvnd/egl_vendor.d/10_nvidia.json",
        "usr/share/nvidia/nvoptix.bin",
        "usr/share/vulkan/icd.d/nvidia_icd.x86_64.json",
    )
    others = (
        "usr/lib/firmware/nvidia/570.86.15/gsp_ga10x.bin",
        "usr/lib/firmware/nvidia/580.159.04/notes.txt",
        "usr/share/glvnd/egl_vendor.d/50_mesa.json",
        "usr/share/vulkan/icd.d/lvp_icd.json",
    )
    before = plan(find(host(tmp_path)))
    for name in (*wanted, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    more = set(plan(find(tmp_path))) - set(before)
    assert more == {Mount(f"/{name}", f"/{name}") for name in wanted}


def test_links_that_lead_out_of_the_root_are_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside.so.580.1"
    outside.touch()
    libraries = tmp_path / "root" / "usr" / "lib64"
    libraries.mkdir(parents=True)
    (libraries / "libnvidia-ml.so.580.1").symlink_to(outside)
    assert find(tmp_path / "root") == ()


def test_the_management_library_is_found_under_the_drivers_root(tmp_path: Path) -> None:
    assert library_under(tmp_path) is None
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.580.159.04").touch()
    (folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.159.04")
    assert library_under(tmp_path) == folder / "libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("names", "version"),
    [
        ([], None),
        (["libcuda.so.580.159.04", "libnvidia-ml.so.1", "libnvidia-ml.so"], None),
        (["libnvidia-ml.so.580"], None),
        (["libnvidia-ml.so.580.1.2.3"], None),
        (["libnvidia-ml.so.580.1.bak"], None),
        (["mylibnvidia-ml.so.580.1"], None),
        (["libnvidia-ml.so.580.1"], "580.1"),
        (["libnvidia-ml.so.9.99", "libnvidia-ml.so.10.1"], "10.1"),
        (["libnvidia-ml.so.580.1", "libnvidia-ml.so.580.1.1"], "580.1.1"),
        (["libnvidia-ml.so.580.65.06", "libnvidia-ml.so.580.65.6"], "580.65.06"),
    ],
    ids=[
        "nothing",
        "links alone",
        "one number",
        "four numbers",
        "a copy",
        "a name that only ends like it",
        "two numbers",
        "by number, not by letter",
        "the longer of equal beginnings",
        "the first of equal numbers",
    ],
)
def test_the_version_is_read_from_the_name_of_a_versioned_file(names: list[str], version: str | None) -> None:
    assert driver_version(Found(f"/l/{name}", f"/l/{name}") for name in names) == version


@given(versions=st.lists(st.tuples(*[st.integers(0, 999)] * 3), min_size=1))
def test_the_version_is_the_highest_of_all_whatever_their_order(
    versions: list[tuple[int, int, int]],
) -> None:
    files = [Found("/l", "/l")] + [
        Found(f"/l/libnvidia-ml.so.{a}.{b}.{c}", "/elsewhere") for a, b, c in versions
    ]
    assert driver_version(files) == ".".join(map(str, max(versions)))


@pytest.mark.parametrize("folder", LIBRARY_FOLDERS)
def test_libraries_are_found_in_every_folder_of_a_distribution(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    library = tmp_path / folder / "libnvidia-ml.so.580.1"
    library.touch()
    (tmp_path / folder / "libnvidia-ml.so.1").symlink_to(library.name)
    target = f"/{folder}/{library.name}"
    assert plan(find(tmp_path)) == (Mount(f"/{folder}/libnvidia-ml.so.1", target), Mount(target, target))
    assert library_under(tmp_path) == tmp_path / folder / "libnvidia-ml.so.1"


@pytest.mark.parametrize("tool", sorted(BINARIES))
@pytest.mark.parametrize("folder", BINARY_FOLDERS)
def test_each_tool_is_found_in_every_folder_of_a_distribution(tmp_path: Path, folder: str, tool: str) -> None:
    for name in (f"{folder}/{tool}", f"{folder}/{tool}-old", "usr/lib64/libnvidia-ml.so.580.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert plan(find(tmp_path))[0 if folder != "usr/local/nvidia/bin" else -1] == Mount(
        f"/{folder}/{tool}", f"/{folder}/{tool}"
    )
    assert len(plan(find(tmp_path))) == 2


@pytest.mark.parametrize(("folder", "pattern"), DATA.items(), ids=DATA)
def test_files_of_the_driver_are_found_in_every_folder_of_data(
    tmp_path: Path, folder: str, pattern: str
) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libnvidia-ml.so.580.1").touch()
    before = set(plan(find(tmp_path)))
    (tmp_path / folder).mkdir(parents=True)
    ours = f"{folder}/{pattern.replace('*', '.x')}"
    for name in (ours, f"{folder}/other.json"):
        (tmp_path / name).touch()
    assert set(plan(find(tmp_path))) - before == {Mount(f"/{ours}", f"/{ours}")}


@pytest.mark.parametrize("folder", FIRMWARE_FOLDERS)
def test_firmware_is_that_of_the_version_in_either_folder(tmp_path: Path, folder: str) -> None:
    (tmp_path / "usr/lib64").mkdir(parents=True)
    (tmp_path / "usr/lib64/libnvidia-ml.so.580.1").touch()
    for name in ("580.1/gsp_tu10x.bin", "580.1/other.bin", "570.1/gsp_tu10x.bin"):
        (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / name).touch()
    (tmp_path / folder / "590.1").symlink_to("580.1")
    found = [one.path for one in find(tmp_path) if "firmware" in one.path]
    assert found == [f"/{folder}/570.1/gsp_tu10x.bin", f"/{folder}/580.1/gsp_tu10x.bin"]
    mounts = [one.path for one in plan(find(tmp_path)) if "firmware" in one.path]
    assert mounts == [f"/{folder}/580.1/gsp_tu10x.bin"]


def test_only_files_are_mounted(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib64"
    (libraries / "libfolder.so.580.1").mkdir(parents=True)
    (libraries / "libnvidia-ml.so.580.1").touch()
    (libraries / "libdangling.so.1").symlink_to("nowhere")
    assert [one.path for one in find(tmp_path)] == ["/usr/lib64/libnvidia-ml.so.580.1"]


def test_a_link_to_itself_is_not_mounted_and_hides_nothing(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib64"
    libraries.mkdir(parents=True)
    (libraries / "libnvidia-ml.so.580.1").touch()
    (libraries / "libitself.so.1").symlink_to("libitself.so.1")
    assert [one.path for one in find(tmp_path)] == ["/usr/lib64/libnvidia-ml.so.580.1"]


@pytest.mark.parametrize(
    "first",
    ["nothing", "a folder", "a dangling link"],
)
def test_a_management_library_that_is_not_a_file_is_skipped(tmp_path: Path, first: str) -> None:
    early, late = (tmp_path / folder / LIBRARY for folder in LIBRARY_FOLDERS[:2])
    early.parent.mkdir(parents=True)
    late.parent.mkdir(parents=True)
    late.touch()
    if first == "a folder":
        early.mkdir()
    elif first == "a dangling link":
        early.symlink_to("nowhere")
    assert library_under(tmp_path) == late
    if first != "nothing":
        early.rmdir() if first == "a folder" else early.unlink()
    early.touch()
    assert library_under(tmp_path) == early


@given(
    names=st.sets(
        st.sampled_from(["libcuda.so", "libnvidia-ml.so", "libnvidia-ptx.so"]).flatmap(
            lambda stem: st.sampled_from(["580.1", "570.1", "1", "580.1.1"]).map(f"{stem}.{{}}".format)
        )
    )
)
def test_the_plan_contains_the_libraries_of_one_version_only(names: set[str]) -> None:
    files = [Found(f"/usr/lib64/{name}", f"/usr/lib64/{name}") for name in names]
    version = driver_version(files)
    expected = sorted(name for name in names if version is not None and name.endswith(f".so.{version}"))
    assert [mount.container_path.rpartition("/")[2] for mount in plan(files)] == expected
