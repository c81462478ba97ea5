"""Which of the driver's files go into a container."""

from pathlib import Path

from deviceplugin.injection.driver import Found, Mount, driver_version, find, library_under, plan

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


def test_libraries_of_the_drivers_version_their_links_and_the_tools(tmp_path: Path) -> None:
    mounts = plan(find(host(tmp_path)))
    assert mounts == (
        Mount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),
        Mount(f"/{LIB}/libcuda.so", f"/{LIB}/libcuda.so.580.159.04"),
        Mount(f"/{LIB}/libcuda.so.1", f"/{LIB}/libcuda.so.580.159.04"),
        Mount(f"/{LIB}/libcuda.so.580.159.04", f"/{LIB}/libcuda.so.580.159.04"),
        Mount(f"/{LIB}/libnvidia-ml.so.1", f"/{LIB}/libnvidia-ml.so.580.159.04"),
        Mount(f"/{LIB}/libnvidia-ml.so.580.159.04", f"/{LIB}/libnvidia-ml.so.580.159.04"),
    )


def test_what_leads_egl_vulkan_and_optix_to_the_driver_and_its_firmware_of_this_version(
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


def test_a_machine_without_driver_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "bin" / "nvidia-smi").touch()
    assert plan(find(tmp_path)) == ()
    assert plan(find(tmp_path / "nowhere")) == ()


def test_links_that_lead_out_of_the_root_are_left_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside.so.580.1"
    outside.touch()
    libraries = tmp_path / "root" / "usr" / "lib64"
    libraries.mkdir(parents=True)
    (libraries / "libnvidia-ml.so.580.1").symlink_to(outside)
    assert find(tmp_path / "root") == ()


def test_the_version_is_that_of_the_management_library() -> None:
    files = [Found(f"/l/{name}", f"/l/{name}") for name in ("libcuda.so.9.9", "libnvidia-ml.so.580.159.04")]
    assert driver_version(files) == "580.159.04"


def test_of_two_versions_the_higher_number_counts() -> None:
    names = ("libnvidia-ml.so.95.1", "libnvidia-ml.so.580.159.04", "libnvidia-ml.so.580.95.05")
    assert driver_version(Found(f"/l/{name}", f"/l/{name}") for name in names) == "580.159.04"


def test_the_management_library_is_found_under_the_drivers_root(tmp_path: Path) -> None:
    assert library_under(tmp_path) is None
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.580.159.04").touch()
    (folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.159.04")
    assert library_under(tmp_path) == folder / "libnvidia-ml.so.1"


def test_a_link_that_leads_to_itself_is_not_mounted_and_hides_nothing(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib64"
    libraries.mkdir(parents=True)
    (libraries / "libnvidia-ml.so.580.1").touch()
    (libraries / "libitself.so.1").symlink_to("libitself.so.1")
    assert [one.path for one in find(tmp_path)] == ["/usr/lib64/libnvidia-ml.so.580.1"]
