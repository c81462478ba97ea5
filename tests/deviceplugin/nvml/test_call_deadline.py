"""One GPU that hangs the driver: its thread is abandoned, the others continue."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from cluster.fake.clock import FakeClock, eventually
from deviceplugin.nvml.call_deadline import DEADLINE_SECONDS, AbandonedError, DeadlineNvml
from deviceplugin.nvml.health import State
from deviceplugin.nvml.interface import GpuUsage, NvmlError
from deviceplugin.nvml.watch import GpuWatch, NvmlReport
from tests.fakes.nvml import MemoryNvml, a_gpu, xid


class HangingNvml(MemoryNvml):
    """NVML in memory, in which one question about one GPU hangs until it is released."""

    def __init__(self) -> None:
        super().__init__([a_gpu(0), a_gpu(1)])
        self.released = threading.Event()
        self.hangs: str | None = None
        self.is_hanging = threading.Event()
        self.closed = 0

    def touch(self, uuid: str) -> None:
        """Hang, perhaps."""
        if uuid == self.hangs:
            self.is_hanging.set()
            self.released.wait()
        super().touch(uuid)

    def close(self) -> None:
        """Count it."""
        self.closed += 1
        super().close()


class Asker:
    """A thread that asks, and what became of it."""

    def __init__(self, nvml: DeadlineNvml, gpu: str) -> None:
        self.error: Exception | None = None
        self._nvml, self._gpu = nvml, gpu
        self.thread = threading.Thread(target=self._ask)
        self.thread.start()

    def _ask(self) -> None:
        try:
            self._nvml.open()
            self._nvml.touch(self._gpu)
        except (AbandonedError, NvmlError) as error:
            self.error = error
        finally:
            self._nvml.close()


class Bench:
    """A guarded NVML of which GPU-0 hangs."""

    def __init__(self) -> None:
        self.nvml, self.clock = HangingNvml(), FakeClock()
        self.nvml.hangs = "GPU-0"
        self.guarded = DeadlineNvml(self.nvml, self.clock)

    def left_behind(self) -> Asker:
        """A thread that asked and was abandoned."""
        asker = Asker(self.guarded, "GPU-0")
        assert self.nvml.is_hanging.wait(60)
        self.clock.advance(DEADLINE_SECONDS)
        assert self.guarded.abandon_overdue()
        return asker


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    try:
        yield made
    finally:
        made.nvml.released.set()


def test_a_call_within_its_deadline_is_not_abandoned(bench: Bench) -> None:
    asker = Asker(bench.guarded, "GPU-0")
    assert bench.nvml.is_hanging.wait(60)
    bench.clock.advance(DEADLINE_SECONDS - 1)
    assert not bench.guarded.abandon_overdue()
    bench.nvml.released.set()
    asker.thread.join(60)
    assert asker.error is None
    assert bench.nvml.closed == 1


def test_no_thread_is_abandoned_while_no_call_is_made(bench: Bench) -> None:
    bench.guarded.open()
    bench.guarded.touch("GPU-1")
    bench.clock.advance(1000)
    assert not bench.guarded.abandon_overdue()


def test_the_next_thread_asks_the_other_gpus_and_gets_an_error_for_the_hanging_one(bench: Bench) -> None:
    bench.left_behind()
    bench.guarded.open()
    bench.guarded.touch("GPU-1")
    with pytest.raises(NvmlError, match="has not answered for this GPU within 10 s"):
        bench.guarded.touch("GPU-0")


def test_nvml_is_not_shut_down_during_a_call(bench: Bench) -> None:
    asker = bench.left_behind()
    bench.guarded.open()
    bench.guarded.close()
    assert bench.nvml.closed == 0
    bench.nvml.released.set()
    asker.thread.join(60)
    bench.guarded.close()
    assert bench.nvml.closed == 1


def test_a_call_that_returns_late_ends_its_thread_and_its_gpu_is_asked_again(bench: Bench) -> None:
    asker = bench.left_behind()
    bench.guarded.open()
    bench.nvml.released.set()
    asker.thread.join(60)
    assert isinstance(asker.error, AbandonedError)
    bench.guarded.touch("GPU-0")


def test_a_gpu_that_hangs_before_its_uuid_is_known_is_known_by_its_number(bench: Bench) -> None:
    class Nameless(HangingNvml):
        def uuid(self, index: int) -> str:
            if index == 0:
                self.touch("GPU-0")
            return super().uuid(index)

    nvml = bench.nvml = Nameless()
    nvml.hangs = "GPU-0"
    guarded = DeadlineNvml(nvml, bench.clock)

    def ask() -> None:
        guarded.open()
        with pytest.raises(AbandonedError):
            guarded.uuid(0)

    thread = threading.Thread(target=ask)
    thread.start()
    assert nvml.is_hanging.wait(60)
    bench.clock.advance(DEADLINE_SECONDS)
    assert guarded.abandon_overdue()
    guarded.open()
    with pytest.raises(NvmlError):
        guarded.uuid(0)
    assert guarded.uuid(1) == "GPU-1"
    nvml.released.set()
    thread.join(60)


@contextmanager
def running(watch: GpuWatch, nvml: HangingNvml) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=lambda: _quietly(watch, nvml), daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        nvml.released.set()
        thread.join(60)


def _quietly(watch: GpuWatch, nvml: HangingNvml) -> None:
    try:
        watch.run(nvml.stop)
    except AbandonedError:
        return


def test_the_knowledge_of_the_watch_survives_an_abandoned_thread(bench: Bench) -> None:
    nvml, reports = bench.nvml, list[NvmlReport]()
    guarded = DeadlineNvml(nvml, bench.clock)
    watch = GpuWatch(guarded, lambda _: 0, reports.append, clock=nvml)
    nvml.hangs = None

    def begin_to_hang() -> None:
        nvml.hangs = "GPU-0"

    nvml.script.extend([lambda: xid("GPU-1", 79), begin_to_hang, *[lambda: None] * 20])
    with running(watch, nvml):
        assert nvml.is_hanging.wait(60)
        bench.clock.advance(DEADLINE_SECONDS)
        assert guarded.abandon_overdue()
        nvml.script.extend([lambda: xid("GPU-1", 48), *[lambda: None] * 40])
        watch.run(nvml.stop)
        devices = {device.uuid: device for device in reports[-1].devices}
        hung, other = devices["GPU-0"], devices["GPU-1"]
        assert hung.state is State.UNHEALTHY
        assert "The driver hangs" in str(hung.published.reason)
        assert other.published.reason == "XID 79: GPU has fallen off the bus; it needs a reset"
        before = len(reports)
    eventually(lambda: not bench.guarded.abandon_overdue())
    assert len(reports) == before, "the thread that was left behind reports nothing any more"


def test_a_gpu_that_hangs_while_it_is_measured_is_abandoned_like_any_other(bench: Bench) -> None:
    class Slow(HangingNvml):
        def usage(self, uuid: str, parts: Sequence[str]) -> GpuUsage:
            self.touch(uuid)
            return super().usage(uuid, parts)

    nvml = Slow()
    nvml.hangs = "GPU-0"
    bench.nvml.released.set()
    guarded = DeadlineNvml(nvml, bench.clock)
    errors: list[Exception] = []

    def ask() -> None:
        guarded.open()
        try:
            guarded.usage("GPU-0", ())
        except AbandonedError as error:
            errors.append(error)

    asker = threading.Thread(target=ask)
    asker.start()
    assert nvml.is_hanging.wait(60)
    bench.clock.advance(DEADLINE_SECONDS)
    assert guarded.abandon_overdue()
    guarded.open()
    assert guarded.usage("GPU-1", ()) == GpuUsage()
    with pytest.raises(NvmlError, match="has not answered"):
        guarded.usage("GPU-0", ())
    nvml.released.set()
    asker.join(60)
    assert len(errors) == 1
