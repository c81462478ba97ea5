"""No NVML library, no driver, zero GPUs: the agent reports it, advertises nothing, and keeps checking."""

from collections.abc import Iterator

import pytest

from devcluster.daemons import Daemon
from devcluster.product import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-b"
GPUS = 4
DRIVER_NOT_LOADED = 9


@pytest.fixture
def nobody(parts: Parts, playground: Playground) -> Iterator[None]:
    """The node without its agent; the simulated driver is mended at the end."""
    parts.agent(NODE).kill()
    playground.await_gpus(NODE, 0)
    yield
    parts.fake_nvml(NODE).clear()


def unready(parts: Parts, playground: Playground, agent: Daemon, words: str) -> str:
    answers: list[tuple[int, str]] = []

    def message() -> str | None:
        answers.append(parts.ask(agent, "/readyz"))
        status, text = answers[-1]
        return text if status and words in text else None

    try:
        return playground.await_that(f"the agent says {words!r}", message)
    except AssertionError as error:
        error.add_note(f"It said {answers[-1]}")
        raise


@pytest.mark.usefixtures("nobody")
def test_without_the_library_the_agent_reports_it_and_advertises_nothing(
    parts: Parts, playground: Playground
) -> None:
    agent = parts.start_agent(
        NODE, name="agent-no-library", settings={"GPU_BOOKING_NVML_LIBRARY": "/nowhere/libnvidia-ml.so.1"}
    )
    unready(parts, playground, agent, "NVML library")
    assert playground.allocatable(NODE) == 0
    assert agent.exited is None


@pytest.mark.usefixtures("nobody")
def test_a_driver_that_is_loaded_later_is_found(parts: Parts, playground: Playground) -> None:
    parts.fake_nvml(NODE).init_error(DRIVER_NOT_LOADED)
    agent = parts.start_agent(NODE, name="agent-no-driver")
    unready(parts, playground, agent, "driver")
    assert playground.allocatable(NODE) == 0

    parts.fake_nvml(NODE).clear()
    playground.await_gpus(NODE, GPUS)
    playground.await_phase([playground.simple("served", node=NODE)])
    playground.check_agreement("served")


@pytest.mark.usefixtures("nobody")
def test_an_agent_with_no_gpu_reports_it_and_finds_one_that_is_added(
    parts: Parts, playground: Playground
) -> None:
    fake = parts.fake_nvml(NODE)
    kept = fake.state.read_bytes()
    try:
        for _ in range(GPUS):
            fake.remove_gpu(fake.uuids()[-1])
        agent = parts.start_agent(NODE, name="agent-no-gpu")
        unready(parts, playground, agent, "GPU")
        assert playground.allocatable(NODE) == 0
        assert agent.exited is None
    finally:
        fake.state.with_suffix(".kept").write_bytes(kept)
        fake.state.with_suffix(".kept").replace(fake.state)
    playground.await_gpus(NODE, GPUS)
