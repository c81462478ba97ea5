"""Packs one program into a container image: a tar of an OCI image layout, by the standard library alone.

The format is the OCI image specification 1.0: `oci-layout`, `index.json` and blobs named by their SHA-256.
The same input gives the same bytes: no time, owner or machine's name gets in.
"""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Final

from devcluster.binaries.errors import BuildError

ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names, which OCI uses, of what the kernel calls machines."""
MEDIA_TYPE: Final = "application/vnd.oci.image.{}.v1+json"
LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar"


def architecture(machine: str = "") -> str:
    """OCI's name of a machine (default: this one)."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise BuildError(f"No image can be made for {machine}: only for {', '.join(ARCHITECTURES)}.")
    return ARCHITECTURES[machine]


def write_image(tar: Path, name: str, program: Path, *, called: str, machine: str = "") -> None:
    """Write an image that holds one program at `/<called>` and runs it.

    Args:
        tar: the archive to write.
        name: repository and tag under which `ctr images import` files it.
        program: a static executable.
        called: its name in the image, and so its argv[0].
        machine: as `uname -m` says; default: this one.

    """
    platform_is = {"architecture": architecture(machine), "os": "linux"}
    layer = _layer(called, program.read_bytes())
    rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
    config = _json(platform_is | {"config": {"Entrypoint": [f"/{called}"]}, "rootfs": rootfs})
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MEDIA_TYPE.format("manifest"),
            "config": _descriptor(MEDIA_TYPE.format("config"), config),
            "layers": [_descriptor(LAYER_TYPE, layer)],
        }
    )
    named = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    described = _descriptor(MEDIA_TYPE.format("manifest"), manifest)
    index = {"schemaVersion": 2, "manifests": [described | {"annotations": named, "platform": platform_is}]}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index)}
    files |= {f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}": blob for blob in (config, manifest, layer)}
    with tarfile.open(tar, "w") as archive:
        for path, content in files.items():
            _add(archive, path, content, mode=0o644)


def _layer(called: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        _add(archive, called, content, mode=0o755)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, path: str, content: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.mode, entry.size = mode, len(content)
    archive.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(media_type: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}
