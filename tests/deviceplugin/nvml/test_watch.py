"""The watching thread, step by step on a virtual clock."""

from collections.abc import Callable
from functools import partial

import pytest

from deviceplugin.nvml.fault_file import Known
from deviceplugin.nvml.health import State
from deviceplugin.nvml.interface import EventKind, GpuEvent, MigFacts, RemappedRows
from deviceplugin.nvml.watch import GpuWatch, NoGpusError, NvmlReport, Periods
from tests.fakes.nvml import MemoryNvml, a_gpu, no_driver, no_library, xid

EVERY_SECOND = Periods(wait=1.0)
Step = Callable[[], GpuEvent | None]


def nothing() -> None:
    """A wait in which nothing happens."""


def watched(nvml: MemoryNvml, *script: Step) -> list[NvmlReport]:
    """What is reported while the script happens."""
    nvml.script.extend(script)
    reports: list[NvmlReport] = []
    GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, periods=EVERY_SECOND).run(nvml.stop)
    return reports


def reasons(report: NvmlReport) -> dict[str, str | None]:
    return {device.uuid: device.published.reason for device in report.devices}


def test_the_gpus_are_reported_at_once() -> None:
    reports = watched(MemoryNvml([a_gpu(0), a_gpu(1)]))
    assert [reasons(report) for report in reports] == [{"GPU-0": None, "GPU-1": None}]
    assert reports[0].problem is None


def test_a_gpu_whose_events_are_unavailable_is_reported_and_still_probed() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    nvml.gpus[0].events_unavailable = True

    def lose() -> None:
        nvml.gpus[0].lost = True

    reports = watched(nvml, lose, *[nothing] * 10)
    assert reports[1].events_unavailable == ("Events of GPU-0 are unavailable: No permission.",)
    assert reasons(reports[2])["GPU-0"] == "The GPU is lost"


def test_an_unchanged_state_is_not_reported_again() -> None:
    assert len(watched(MemoryNvml([a_gpu(0)]), *[nothing] * 50)) == 1


def test_a_gpu_that_is_lost_under_a_driver_without_recovery_actions_is_noticed() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    nvml.gpus[0].old = True

    def lose() -> None:
        nvml.gpus[0].lost = True

    reports = watched(nvml, lose, *[nothing] * 20)
    assert [reasons(report)["GPU-0"] for report in reports] == [None, "The GPU is lost", "The GPU is lost"]
    assert [report.devices[0].state for report in reports] == [State.HEALTHY, State.SUSPECT, State.UNHEALTHY]


def test_the_thread_pauses_after_a_failed_wait_and_never_busy_loops() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    watched(nvml, lose, *[nothing] * 20)
    assert nvml.waits <= 22
    assert nvml.seconds >= 20


def test_a_change_of_mig_is_read_again() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def divide() -> GpuEvent:
        nvml.gpus[0].mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]
        return GpuEvent("GPU-0", EventKind.MIG_CHANGED, 0)

    reports = watched(nvml, divide)
    assert [sorted(reasons(report)) for report in reports] == [["GPU-0"], ["GPU-0", "MIG-1"]]


def test_a_missing_library_is_reported_once_and_looked_for_again() -> None:
    nvml = MemoryNvml([a_gpu(0)], fault=no_library())

    def install() -> None:
        nvml.fault = None

    reports = watched(nvml, nothing, nothing, install, nothing)
    assert [(report.problem, len(report.devices)) for report in reports] == [
        ("There is no NVML library", 0),
        (None, 1),
    ]


def test_nvml_is_not_initialised_again_while_all_gpus_answer() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    watched(nvml, *[nothing] * 600)
    assert nvml.opened == 1


def test_nvml_is_initialised_again_every_minute_while_a_gpu_is_lost() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    watched(nvml, lose, *[nothing] * 200)
    assert nvml.opened == 4


def test_a_driver_that_goes_away_makes_all_gpus_unhealthy_until_it_is_back() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def unload() -> None:
        nvml.fault = no_driver()

    def load() -> None:
        nvml.fault = None

    reports = watched(nvml, unload, *[nothing] * 3610, load, nothing)
    assert [report.problem for report in reports] == [None, "The NVIDIA driver is not loaded", None]
    assert [reasons(report)["GPU-0"] for report in reports] == [None, "The NVIDIA driver is not loaded", None]


def test_a_node_without_gpus_is_reported_and_a_gpu_added_later_is_found() -> None:
    nvml = MemoryNvml([])

    def plug() -> None:
        nvml.gpus.append(a_gpu(0))

    reports = watched(nvml, nothing, plug, nothing)
    assert [(report.problem, len(report.devices)) for report in reports] == [
        ("NVML lists no GPU on this node.", 0),
        (None, 1),
    ]


def test_a_gpu_that_could_not_be_read_for_a_while_is_read_again() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def spoil() -> GpuEvent:
        nvml.gpus[0].broken = True
        return GpuEvent("GPU-0", EventKind.MIG_CHANGED, 0)

    def repair() -> None:
        nvml.gpus[0].broken = False

    reports = watched(nvml, spoil, repair, *[nothing] * 10)
    assert [reasons(report)["GPU-0"] for report in reports] == [
        None,
        "nvmlDeviceGetName answers Unknown Error",
        None,
    ]


def test_a_driver_whose_waits_keep_failing_does_not_count_as_unresponsive() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)], waiting_fails=True)
    watch = GpuWatch(nvml, lambda _: 0, lambda _: None, clock=nvml)
    silences: list[float] = []
    nvml.script.extend([lambda: silences.append(watch.unresponsive_for())] * 200)
    watch.run(nvml.stop)
    assert max(silences) <= 10


def test_silence_is_measured_since_the_last_return_from_nvml() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    watch = GpuWatch(nvml, lambda _: None, lambda _: None, clock=nvml)
    nvml.seconds += 30
    assert watch.unresponsive_for() == 30
    watch.run(nvml.stop)
    assert watch.unresponsive_for() == 0


def test_a_driver_that_answers_slowly_for_each_of_many_gpus_is_not_silent() -> None:
    class Slow(MemoryNvml):
        def touch(self, uuid: str) -> None:
            self.seconds += 6
            silences.append(watch.unresponsive_for())
            super().touch(uuid)

    nvml = Slow([a_gpu(index) for index in range(8)])
    silences: list[float] = []
    watch = GpuWatch(nvml, lambda _: 0, lambda _: None, clock=nvml)
    watch.run(nvml.stop)
    assert set(silences) == {6}


def test_a_gpu_that_is_cleared_is_probed_and_healthy_at_the_next_wait() -> None:
    nvml = MemoryNvml([a_gpu(0)])
    reports: list[NvmlReport] = []
    watch = GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, periods=EVERY_SECOND)
    nvml.script.extend([lambda: xid("GPU-0", 79), nothing, lambda: watch.clear("GPU-0", "now"), nothing])
    watch.run(nvml.stop)
    fault = "XID 79: GPU has fallen off the bus; it needs a reset"
    assert [reasons(report)["GPU-0"] for report in reports] == [None, fault, None]
    assert nvml.seconds <= 5


def cleared(*script: Callable[[GpuWatch], GpuEvent | None]) -> list[tuple[str | None, ...]]:
    """The reasons of two GPUs while faults and orders happen; each step may give orders to the watch."""
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    reports: list[NvmlReport] = []
    watch = GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, periods=EVERY_SECOND)
    nvml.script.extend([partial(step, watch) for step in script])
    watch.run(nvml.stop)
    return [tuple(reasons(report).values()) for report in reports]


LOST = "XID 79: GPU has fallen off the bus; it needs a reset"


def test_an_order_to_clear_does_not_wait_for_the_end_of_a_flood_of_events() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    reports: list[NvmlReport] = []
    watch = GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, periods=EVERY_SECOND)
    found: list[str | None] = []

    def order() -> GpuEvent:
        watch.clear("GPU-0", "now")
        return flood()

    def flood() -> GpuEvent:
        found.append(reasons(reports[-1])["GPU-0"])
        return xid("GPU-1", 13)

    nvml.script.extend([lambda: xid("GPU-0", 79), order, flood, flood])
    watch.run(nvml.stop)
    assert found == [LOST, None, None]


def test_all_orders_to_clear_are_carried_out_at_the_next_wait() -> None:
    def order(watch: GpuWatch) -> None:
        watch.clear("GPU-0", "now")
        watch.clear("GPU-1", "now")

    found = cleared(lambda _: xid("GPU-0", 79), lambda _: xid("GPU-1", 79), order)
    assert found == [(None, None), (LOST, None), (LOST, LOST), (None, None)]


def test_nvml_and_every_event_stream_is_closed_whatever_ends_a_session() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])

    def lose() -> None:
        nvml.gpus[0].lost = True

    def unload() -> None:
        nvml.fault = no_driver()
        nvml.rebound = True

    streams: list[int] = []
    watched(nvml, nothing, lose, *[lambda: streams.append(nvml.open_streams)] * 100, unload, nothing)
    assert set(streams) == {1}
    assert (nvml.open_streams, nvml.is_open) == (0, False)


def test_memory_rows_are_read_with_every_probe() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def wear_out() -> None:
        nvml.gpus[0].rows = RemappedRows(failed=True)

    reports = watched(nvml, wear_out, *[nothing] * 10)
    assert reasons(reports[-1]) == {"GPU-0": "Memory rows are damaged and cannot be replaced"}


class Notes:
    """A memory that a test reads and writes."""

    def __init__(self) -> None:
        self.now = "boot-1"
        self.known = Known()

    def era(self, driver: str) -> str:
        return f"{self.now} {driver}"

    def recall(self) -> Known:
        return self.known

    def keep(self, known: Known) -> None:
        self.known = known


def remembering(notes: Notes, nvml: MemoryNvml, *script: Step) -> list[NvmlReport]:
    nvml.script.extend(script)
    reports: list[NvmlReport] = []
    GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, periods=EVERY_SECOND, fault_store=notes).run(
        nvml.stop
    )
    return reports


def test_a_fault_that_needs_a_reset_no_longer_counts_after_a_reboot() -> None:
    notes = Notes()
    remembering(notes, MemoryNvml([a_gpu(0)]), lambda: xid("GPU-0", 79))
    notes.now = "boot-2"
    reports = remembering(notes, MemoryNvml([a_gpu(0)]), nothing)
    assert [reasons(report) for report in reports] == [{"GPU-0": None}]
    assert notes.known.faults == {}


def test_a_driver_reload_under_a_running_agent_ends_a_fault_that_needs_a_reset() -> None:
    notes, nvml = Notes(), MemoryNvml([a_gpu(0)])

    def reload() -> None:
        notes.now = "boot-1, second load"

    reports = remembering(notes, nvml, lambda: xid("GPU-0", 79), reload, *[nothing] * 3700)
    assert [reasons(report)["GPU-0"] for report in reports][-1] is None


def test_an_order_to_clear_counts_once_even_after_a_restart_of_the_agent() -> None:
    notes = Notes()

    def played(*script: Step) -> str | None:
        nvml = MemoryNvml([a_gpu(0)])
        reports: list[NvmlReport] = []
        watch = GpuWatch(
            nvml, lambda _: 0, reports.append, clock=nvml, periods=EVERY_SECOND, fault_store=notes
        )
        # The Node says it again to every agent that starts.
        nvml.script.extend([lambda: watch.clear("GPU-0", "the first order"), nothing, *script, nothing])
        watch.run(nvml.stop)
        return reasons(reports[-1])["GPU-0"]

    fault = "XID 79: GPU has fallen off the bus; it needs a reset"
    assert played() is None
    assert played(lambda: xid("GPU-0", 79)) == fault
    assert played() == fault


def test_an_agent_configured_not_to_wait_ends_without_gpus_with_a_message() -> None:
    for nvml in (MemoryNvml([]), MemoryNvml([a_gpu(0)], fault=no_driver())):
        reports: list[NvmlReport] = []
        watch = GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, patient=False)
        with pytest.raises(NoGpusError) as ended:
            watch.run(nvml.stop)
        assert [report.problem for report in reports] == [str(ended.value)]


def test_an_agent_configured_not_to_wait_still_waits_for_the_driver_of_gpus_it_had() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def unload() -> None:
        nvml.fault = no_driver()

    nvml.script.extend([unload, *[nothing] * 7210])
    reports: list[NvmlReport] = []
    GpuWatch(nvml, lambda _: 0, reports.append, clock=nvml, patient=False).run(nvml.stop)
    assert reports[-1].problem == "The NVIDIA driver is not loaded"


def test_a_new_mig_layout_without_an_event_is_seen_in_the_next_round() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def cut() -> None:
        nvml.gpus[0].mig = [MigFacts("MIG-1", "3g.40gb", 1, 0, 40192)]

    reports = watched(nvml, cut, *[nothing] * 61)
    assert [list(reasons(report)) for report in reports] == [["GPU-0"], ["GPU-0", "MIG-1"]]
    assert nvml.opened == 1


def test_a_gpu_that_is_bound_to_the_driver_is_seen_at_once() -> None:
    nvml = MemoryNvml([a_gpu(0)])

    def bind() -> None:
        nvml.gpus.append(a_gpu(1))
        nvml.rebound = True

    reports = watched(nvml, nothing, bind, nothing)
    assert [list(reasons(report)) for report in reports] == [["GPU-0"], ["GPU-0", "GPU-1"]]
    assert nvml.opened == 2


def test_a_gpu_that_is_unbound_from_the_driver_is_unhealthy_until_it_is_bound_again() -> None:
    nvml = MemoryNvml([a_gpu(0), a_gpu(1)])
    taken = nvml.gpus[1]

    def unbind() -> None:
        nvml.gpus.remove(taken)
        nvml.rebound = True

    def bind() -> None:
        nvml.gpus.append(taken)
        nvml.rebound = True

    reports = watched(nvml, unbind, nothing, bind, nothing)
    gone = "NVML does not list this GPU any more"
    assert [reasons(report)["GPU-1"] for report in reports] == [None, gone, None]
    assert {reasons(report)["GPU-0"] for report in reports} == {None}
