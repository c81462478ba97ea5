"""What builds the Dockerfile: Docker if its daemon answers, else buildah on a Debian of our own.

Both mount this machine's certificate authorities into the steps that fetch packages; no layer contains them.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from cluster import names
from devcluster.binaries.cache import kept
from devcluster.images import rootfs
from devcluster.images.rootfs import run

AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
BASE: Final = f"localhost/{names.PRODUCT}/base:1"

Answers = Callable[[list[str]], bool]


class Builder(Protocol):
    """Builds one target and writes it into an archive that containerd imports."""

    name: str

    def build(self, target: str, tag: str, tar: Path, *, file: str = "Dockerfile") -> None:
        """Build the target; ``BuildError`` with the builder's own words if that fails."""
        ...


class Docker:
    """Builds with Docker's BuildKit, on the base image that the Dockerfile names."""

    name = "docker"

    def __init__(self, context: Path, environment: Mapping[str, str] = os.environ) -> None:
        """Args: context: the checkout."""
        self._context = context
        self._environment = environment

    def build(self, target: str, tag: str, tar: Path, *, file: str = "Dockerfile") -> None:
        """Build it, and save it in Docker's own format."""
        words = ["docker", "buildx", "build", "--load", f"--file={file}", *_common(target, tag), "."]
        run(words, self._environment, what=f"The image {target}", folder=self._context)
        save = ["docker", "save", "--output", str(tar), tag]
        run(save, self._environment, what=f"The image {target}")


class Buildah:
    """Builds with buildah, which needs no daemon; its layers lie in a folder of ours."""

    name = "buildah"

    def __init__(self, context: Path, folder: Path, environment: Mapping[str, str] = os.environ) -> None:
        """Args: folder: for layers and the base, kept between builds."""
        self._context = context
        self._folder = folder
        self._environment = environment
        self._buildah = [
            "buildah",
            f"--storage-driver={_driver(folder)}",
            f"--root={folder / 'layers'}",
            f"--runroot={folder / 'running'}",
        ]

    def build(self, target: str, tag: str, tar: Path, *, file: str = "Dockerfile") -> None:
        """Build it on our base image, which is made first if it is not there."""
        self._base()
        # BuildKit finds a Dockerfile's own ignore file by itself.
        own = self._context / f"{file}.dockerignore"
        ignored = [f"--ignorefile={own}"] if own.is_file() else []
        words = [f"--build-arg=BASE={BASE}", *ignored, *_common(target, tag)]
        self._bud(self._context, file, words, target)
        push = [*self._buildah, "push", "--quiet", tag, f"oci-archive:{tar}:{tag}"]
        run(push, self._environment, what=f"The image {target}")

    def _base(self) -> None:
        there = subprocess.run(
            [*self._buildah, "inspect", "--type=image", BASE], capture_output=True, check=False
        )
        if there.returncode == 0:
            return

        def make(draft: Path) -> None:
            rootfs.make(draft / "base.tar", self._environment)
            (draft / "Dockerfile").write_text("FROM scratch\nADD base.tar /\n")

        place = kept(self._folder / f"base-{rootfs.SUITE}", make)
        self._bud(place, "Dockerfile", [f"--tag={BASE}"], "base")

    def _bud(self, context: Path, file: str, words: list[str], target: str) -> None:
        # chroot: a build's steps fetch packages over the host's network, and need no rights of their own.
        command = [
            *self._buildah,
            "bud",
            "--quiet",
            "--layers",
            "--isolation=chroot",
            f"--file={file}",
            *words,
            ".",
        ]
        run(command, self._environment, what=f"The image {target}", folder=context)


def choose(context: Path, folder: Path, answers: Answers | None = None) -> Builder:
    """Docker with BuildKit if its daemon answers, else buildah.

    Args:
        context: the checkout.
        folder: for what buildah keeps.
        answers: whether a command succeeds.
    """
    ends_well = answers or _ends_well
    if ends_well(["docker", "version"]) and ends_well(["docker", "buildx", "version"]):
        return Docker(context)
    return Buildah(context, folder)


def _ends_well(command: list[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _common(target: str, tag: str) -> list[str]:
    lent = [f"--secret=id=authorities,src={AUTHORITIES}"] if AUTHORITIES.is_file() else []
    return [f"--target={target}", f"--tag={tag}", *lent]


def _driver(folder: Path) -> str:
    """Overlay, or vfs if the folder is on an overlay itself, as in a container: those cannot be stacked."""
    folder.mkdir(parents=True, exist_ok=True)
    kind = run(
        ["findmnt", "-no", "FSTYPE", "-T", str(folder)], os.environ, what="Looking for room for images"
    )
    return "vfs" if kind.strip() == "overlay" else "overlay"
