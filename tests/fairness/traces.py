"""Jobs of a simulation: public traces from a folder, or a small synthetic sample."""

import csv
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from zlib import crc32

from tests.fairness.simulation import Job, job
from tests.seeded import seeded

PHILLY = "philly_sia.csv"
"""Microsoft Philly, 2017 (msr-fiddle/philly-traces, CC BY 4.0): timestamp, duration, num_gpus, cluster."""
OPENB = "openb_pod_list_default.csv"
"""Alibaba, 2023 (clusterdata, openb): num_gpu, creation_time, scheduled_time, deletion_time."""
NODE_GPUS = 8


def philly(folder: Path, first: float, last: float) -> list[Job]:
    """Jobs submitted between two days of the trace. Its virtual clusters are the users."""
    rows = [
        (
            datetime.fromisoformat(row["timestamp"]),
            float(row["duration"]),
            int(row["num_gpus"]),
            row["cluster"],
        )
        for row in _rows(folder / PHILLY)
    ]
    begin = min(row[0] for row in rows)
    begun = begin.timestamp() + first * 86_400
    of_day = [(at.timestamp() - begun, lasts, gpus, user) for at, lasts, gpus, user in rows]
    return _jobs((one for one in of_day if 0 <= one[0] < (last - first) * 86_400), "p")


def openb(folder: Path, first: float, last: float, users: int = 12) -> list[Job]:
    """Pods with GPUs created between two days. A part of a GPU counts whole; like requests are one user's."""
    found = []
    for row in _rows(folder / OPENB):
        count, created = int(row["num_gpu"]), float(row["creation_time"])
        began = float(row["scheduled_time"] or created)
        lasted = float(row["deletion_time"] or 0) - began
        if count and lasted > 0 and first <= created / 86_400 < last:
            request = f"{row['cpu_milli']}/{row['memory_mib']}/{row['gpu_milli']}"
            user = f"u{crc32(request.encode()) % users:02}"
            found.append((created - first * 86_400, lasted, count, user))
    return _jobs(iter(found), "o")


def sample(days: float = 4, *, seed: int = 1) -> list[Job]:
    """A synthetic load: some users with many jobs, some with few; sizes and lengths as clusters have them."""
    rng = seeded(seed)
    found = []
    for user in range(8):
        at, gap = 0.0, rng.choice([600.0, 1800.0, 5400.0])
        while (at := at + rng.expovariate(1 / gap)) < days * 86_400:
            size = rng.choice([1, 1, 1, 1, 2, 4, 8])
            found.append((at, min(rng.lognormvariate(7.5, 1.7), 2 * 86_400.0), size, f"u{user}"))
    return _jobs(iter(found), "s")


def _jobs(rows: Iterator[tuple[float, float, int, str]], prefix: str) -> list[Job]:
    ordered = sorted(rows)
    return [
        job(f"{prefix}{number:06}", user, gpus, at=at, seconds=max(1.0, seconds), per_node=NODE_GPUS)
        for number, (at, seconds, gpus, user) in enumerate(ordered)
    ]


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
