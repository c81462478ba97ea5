"""The control daemons of NVIDIA's Multi-Process Service on this node, as their pod tells by files.

They are not the agent's: a daemon that ends takes all processes on its GPU with it, so an update of the agent
must not end it. Its pod writes a GPU's ``state`` whenever its daemon has answered. A daemon that has not
answered for half a minute is silent: new pods do not get its GPU in this mode, and those that have it stay.

While pods share a GPU in this mode its compute mode is EXCLUSIVE_PROCESS: then a process that leaves out the
daemon gets nothing of the GPU. The daemons' pod sets that as long as the agent's file ``wanted`` is there.
"""

import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import structlog

from cluster import mps_names
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

SILENT_AFTER: Final = 30.0
"""Seconds since its last answer. It is asked every five seconds, and may take five to answer."""
PATIENCE: Final = 5.0
"""Seconds for which the start of a container waits for the compute mode; then the kubelet calls again."""
LOOK_EVERY: Final = 0.1

MANY: Final = "Under MPS a container can have a share of one GPU, and this one has shares of several."
_AGAIN: Final = "The container starts as soon as it is."


class MpsDaemons:
    """The daemons of the node; none where there is no folder. Safe from any thread."""

    def __init__(self, root: Path | None, clock: Clock) -> None:
        """Args: root: the folder that agent, daemons and containers find at the same path."""
        self._root = root
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[Path, tuple[int, float | None]] = {}
        """A state's file -> when it was written last, in its own time, and when that was seen to change."""

    def pipe(self, uuid: str) -> Path | None:
        """Where the clients of a GPU find its daemon; None where this mode is not offered."""
        return None if self._root is None else self._root / uuid / mps_names.PIPES

    def answering(self) -> frozenset[str]:
        """UUIDs of the GPUs whose daemon has answered lately."""
        if self._root is None:
            return frozenset()
        return frozenset(path.parent.name for path in self._states() if self._is_fresh(path))

    def pod(self) -> frozenset[str]:
        """The uid of the daemons' pod, if there is one: its processes are on GPUs that others hold."""
        text = None if self._root is None else _text(self._root / mps_names.OWNER)
        return frozenset({text} if text else ())

    def want(self, uuids: Collection[str]) -> None:
        """Let exactly these GPUs be used through their daemons alone. Never raises."""
        for state in self._states():
            _set(state.with_name(mps_names.WANTED), state.parent.name in uuids)

    def why_not_yet(self, uuids: Iterable[str], *, is_mps: bool) -> str | None:
        """Why a container with these GPUs cannot start yet, after a moment of waiting; None if it can.

        Args:
            uuids: of its GPUs.
            is_mps: whether it shares them in this mode. If not, they must be open to everybody again, as they
                are soon after ``want``; one whose daemon is silent counts as open, as nobody could open it.
        """
        gpus = sorted(uuids)
        if self._root is None:
            return "Its node does not offer shares under MPS any more. Delete the pod." if is_mps else None
        if is_mps and len(gpus) > 1:
            return f"{MANY} Delete the pod, and name one GPU for each container."
        if is_mps and (self._root / gpus[0]).is_dir():
            _set(self._root / gpus[0] / mps_names.WANTED, True)
        until = self._clock.monotonic() + PATIENCE
        while problem := next(filter(None, (self._problem(uuid, is_mps=is_mps) for uuid in gpus)), None):
            if self._clock.monotonic() >= until:
                return problem
            self._clock.wait(threading.Event(), LOOK_EVERY)
        return None

    def _problem(self, uuid: str, *, is_mps: bool) -> str | None:
        state = (self._root or Path()) / uuid / mps_names.STATE
        if not self._is_fresh(state):
            return f"The MPS control daemon of GPU {uuid} does not answer. {_AGAIN}" if is_mps else None
        is_exclusive = _text(state) == mps_names.EXCLUSIVE
        if is_mps and not is_exclusive:
            return f"GPU {uuid} is not in the compute mode {mps_names.EXCLUSIVE} yet. {_AGAIN}"
        if is_exclusive and not is_mps:
            return (
                f"GPU {uuid} is still in the compute mode {mps_names.EXCLUSIVE}. The container starts then."
            )
        return None

    def _states(self) -> tuple[Path, ...]:
        try:
            return tuple(self._root.glob(f"*/{mps_names.STATE}")) if self._root else ()
        except OSError:
            return ()

    def _is_fresh(self, path: Path) -> bool:
        """Whether it was seen to be written lately.

        The time of day does not count. What was there at the first look counts as silent until it changes.
        """
        try:
            written = path.stat().st_mtime_ns
        except OSError:
            return False
        now = self._clock.monotonic()
        with self._lock:
            known = self._seen.get(path)
            if known is None or known[0] != written:
                self._seen[path] = known = (written, None if known is None else now)
        return known[1] is not None and now - known[1] < SILENT_AFTER


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None


def _set(path: Path, is_there: bool) -> None:  # noqa: FBT001 - a file is there or not
    try:
        if is_there:
            path.touch()
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("the compute mode of a GPU cannot be asked for", file=str(path), error=str(error))
