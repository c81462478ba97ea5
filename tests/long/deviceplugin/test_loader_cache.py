"""runc makes a container with our hook: its own loader finds what was mounted where no loader searches."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from cluster.names import DOMAIN
from devcluster.binaries import ensure
from deviceplugin.injection.ldcache_hook import hooks
from tests.deviceplugin.injection.test_ldcache_hook import FOLDER, LIBRARY, MOUNTS, folders_of_this_host

PRINTS_ITS_CACHE = ["/sbin/ldconfig", "-p"]


def a_bundle(folder: Path, runc: Path) -> dict[str, Any]:
    """A root with nothing in it but a loader that needs no library; its configuration."""
    root = folder / "rootfs"
    for name in ("sbin", "etc", "proc", "dev", "sys"):
        (root / name).mkdir(parents=True)
    program = next(path for path in map(Path, ("/sbin/ldconfig.real", "/sbin/ldconfig")) if path.exists())
    shutil.copy(program, root / "sbin" / "ldconfig")
    subprocess.run([runc, "spec"], cwd=folder, check=True)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    config["process"] |= {"terminal": False, "args": PRINTS_ITS_CACHE}
    config["root"] = {"path": "rootfs", "readonly": True}
    library = next(path / LIBRARY for path in map(Path, folders_of_this_host()) if (path / LIBRARY).exists())
    mount = {"type": "bind", "source": str(library.resolve()), "options": ["rbind", "ro"]}
    config["mounts"].append({"destination": f"{FOLDER}/{LIBRARY}", **mount})
    return config


def printed(folder: Path, runc: Path, config: dict[str, Any], name: str) -> str:
    """What a container of this configuration prints."""
    (folder / "config.json").write_text(json.dumps(config, separators=(",", ":")))
    state = ["--root", str(folder / "state")]
    done = subprocess.run(
        [runc, *state, "run", f"{name}.{DOMAIN}"], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_a_container_finds_a_library_that_was_mounted_where_its_loader_does_not_search(
    tmp_path: Path,
) -> None:
    runc = ensure().path("runc")
    config = a_bundle(tmp_path, runc)
    assert f"{FOLDER}/{LIBRARY}" not in printed(tmp_path, runc, config, "without")
    config["hooks"] = {
        "createContainer": [
            {"path": hook["path"], "args": hook["args"]}
            for hook in hooks(MOUNTS, root=Path("/"), host_root=Path("/"))
        ]
    }
    assert f"{FOLDER}/{LIBRARY}" in printed(tmp_path, runc, config, "with")
