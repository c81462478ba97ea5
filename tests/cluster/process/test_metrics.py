from prometheus_client import CollectorRegistry

from cluster.process.metrics import measured, measured_each, new_registry, render


def text(registry: CollectorRegistry) -> str:
    return render(registry, "")[1].decode()


def test_every_process_reports_its_memory() -> None:
    assert "process_resident_memory_bytes" in text(new_registry())


def test_two_registries_share_nothing() -> None:
    first, second = new_registry(), new_registry()
    measured(first, "cache_age_seconds", "Seconds since the newest event.", lambda: 1.5)
    assert "gpu_booking_cache_age_seconds 1.5" in text(first)
    assert "gpu_booking_cache_age_seconds" not in text(second)


def test_a_value_that_is_not_known_yet_is_nan() -> None:
    registry = CollectorRegistry()
    measured(registry, "cache_age_seconds", "Seconds since the newest event.", lambda: None)
    assert "gpu_booking_cache_age_seconds NaN" in text(registry)


def test_a_gauge_is_not_read_when_it_is_registered() -> None:
    reads: list[int] = []

    def read() -> float:
        reads.append(1)
        return 1.0

    measured(CollectorRegistry(auto_describe=True), "reads", "Reads.", read)
    assert reads == []


def test_a_gauge_with_a_label_shows_the_values_at_the_time_of_the_scrape() -> None:
    registry, there = CollectorRegistry(auto_describe=True), {"a100": 4.0}
    measured_each(registry, "gpus", "GPUs by model.", lambda: there, label="model")
    assert 'gpu_booking_gpus{model="a100"} 4.0' in text(registry)
    there.clear()
    assert "a100" not in text(registry)
    assert "# HELP gpu_booking_gpus GPUs by model." in text(registry)
