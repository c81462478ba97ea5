"""cert-manager's own custom resources, from its pinned Go module: what its API server takes and refuses."""

import json
import re
import shutil
from pathlib import Path
from typing import Final

from devcluster.binaries.cache import cache_folder, kept
from devcluster.binaries.golang import Go
from devcluster.binaries.progress import silent
from devcluster.binaries.toolchain import ensure_go

MODULE: Final = "github.com/cert-manager/cert-manager"
_HERE: Final = Path(__file__).parent / "cert-manager"


def resources() -> tuple[Path, ...]:
    """The CustomResourceDefinitions of certificates and of issuers, fetched once per machine."""
    (version,) = re.findall(
        rf"^require {re.escape(MODULE)} (\S+)$", (_HERE / "go.mod").read_text(), re.MULTILINE
    )
    folder = cache_folder()

    def fetch(draft: Path) -> None:
        go = Go(ensure_go(folder, silent), _HERE, cgo=False)
        output = go.run(
            "Fetching cert-manager's resources", ["mod", "download", "-json", MODULE], str.isspace
        )
        for name in ("certificates", "issuers"):
            shutil.copy(
                Path(json.loads(output)["Dir"], "deploy", "crds", f"cert-manager.io_{name}.yaml"), draft
            )

    return tuple(sorted(kept(folder / f"cert-manager-{version}", fetch).iterdir()))
