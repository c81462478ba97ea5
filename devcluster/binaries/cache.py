"""A folder of finished results, shared by all checkouts: made once, in one step, by one process at a time.

Used for the binaries, the images and the Go toolchain. A result is built in a draft folder next to its final
one and renamed when it is complete, so a killed build never leaves a half-finished result. Results of other
versions are kept: another checkout may use them, or this one tomorrow.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cluster import names
from devcluster.binaries.errors import BuildError

DRAFT = ".draft"


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where results are kept: `$GPU_BOOKING_CACHE`, else `gpu-booking` in the user's cache folder.

    Raises:
        BuildError: there is no such folder, because no home folder is known.

    """
    if own := environment.get(names.setting("cache")):
        return Path(own).absolute()
    if base := environment.get("XDG_CACHE_HOME"):
        return Path(base).absolute() / names.PRODUCT
    if home := environment.get("HOME"):
        return Path(home).absolute() / ".cache" / names.PRODUCT
    raise BuildError(
        f"Neither HOME nor {names.setting('cache')} is set: name a folder for what is built in one of them."
    )


def kept(
    place: Path,
    make: Callable[[Path], None],
    *,
    whole: Callable[[Path], bool] = Path.is_dir,
    waiting: Callable[[], None] = lambda: None,
) -> Path:
    """The result at `place`, made by `make(draft folder)` if it is not there yet.

    `whole` says whether a folder at `place` can be used; a damaged one is built again.
    `waiting` is called once if another process is making the same, before this one waits for it.
    """
    if whole(place):
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place.with_name(f"{place.name}.lock"), waiting):
            if not whole(place):
                _make(place, make)
    except OSError as error:
        raise BuildError(
            f"What is built is to be kept in {place.parent}, but {error}."
            f" Make room or rights there, or name another folder by {names.setting('cache')}."
        ) from error
    return place


def _make(place: Path, make: Callable[[Path], None]) -> None:
    """Make a result. The caller holds its lock, so any other draft of it is of a killed process."""
    for left in place.parent.glob(f"{place.name}.*{DRAFT}"):
        shutil.rmtree(left, ignore_errors=True)
    # A unique name: children of a killed build may still be writing into its draft.
    draft = Path(tempfile.mkdtemp(prefix=f"{place.name}.", suffix=DRAFT, dir=place.parent))
    try:
        draft.chmod(0o755)
        make(draft)
        if place.exists():
            shutil.rmtree(place)
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _alone(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold an exclusive lock that ends with this process, however it ends."""
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
