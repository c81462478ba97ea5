"""A container image in a file."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Image:
    """One image, ready to be imported."""

    name: str
    tar: Path
    """An archive that containerd imports: a tar of an OCI image layout, or what `docker save` writes."""
