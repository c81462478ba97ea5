"""The files under ``/static/``: read once, addressed by their content, cached by browsers."""

import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from flask import Response

from booking.server.web.problems import Kind, ProblemError

_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
"""Suffixes of files in ``static`` that are served; licences and checksums are for readers of the source."""
_FOREVER: Final = "public, max-age=31536000, immutable"
_NO_FILE: Final = Kind("not-found", HTTPStatus.NOT_FOUND, "There is no such file")


@dataclass(frozen=True)
class _Asset:
    content: bytes
    type: str
    version: str


class Assets:
    """All files that pages load from ``/static``."""

    def __init__(self) -> None:
        self._assets = dict(_read(resources.files("booking.server.web") / "static", ""))

    def address(self, name: str) -> str:
        """Where a page finds a file; the address changes with the content."""
        return f"/static/{name}?v={self._assets[name].version}"

    def serve(self, name: str) -> Response:
        """``GET /static/NAME``; needs no authentication."""
        asset = self._assets.get(name)
        if asset is None:
            raise ProblemError(_NO_FILE, "There is no such file.")
        return Response(asset.content, content_type=asset.type, headers={"Cache-Control": _FOREVER})


def _read(folder: Traversable, path: str) -> list[tuple[str, _Asset]]:
    found: list[tuple[str, _Asset]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{path}{each.name}/")
        elif (ending := each.name.rpartition(".")[2]) in _TYPES:
            content = each.read_bytes()
            version = hashlib.sha256(content).hexdigest()[:12]
            found.append((path + each.name, _Asset(content, _TYPES[ending], version)))
    return found
