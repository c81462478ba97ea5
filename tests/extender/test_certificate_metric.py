"""The end of the certificate of mode ``existing`` is a metric, so that people are warned before it."""

import threading
from math import isnan
from pathlib import Path

from prometheus_client import CollectorRegistry

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.process.certificates import ends_at
from cluster.process.clock import SystemClock
from extender.__main__ import build
from tests.extender.settings import settings
from tests.fakes.certificates import authority, signed

NAME = f"{names.METRICS_PREFIX}_extender_certificate_expiration_timestamp_seconds"


def test_the_end_of_the_served_certificate_is_shown(tmp_path: Path) -> None:
    ours = authority(tmp_path, "ours")
    shown = signed(ours, tmp_path, "extender", use="serverAuth")
    files = {
        "TLS_CERTIFICATE_FILE": str(shown.certificate),
        "TLS_KEY_FILE": str(shown.key),
        "TLS_CLIENT_CA_FILE": str(ours.certificate),
    }
    registry = CollectorRegistry()
    process = build(settings(tmp_path, MODE="existing", **files), SystemClock(), registry)
    thread = threading.Thread(target=process.run)
    thread.start()
    end = ends_at(shown.certificate.read_bytes()).timestamp()
    eventually(lambda: registry.get_sample_value(NAME) == end, deadline=60)
    process.end("the test is over")
    thread.join()


def test_the_certificate_metric_is_nan_beside_the_extender_s_own_scheduler(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    process = build(settings(tmp_path), FakeClock(), registry)
    value = registry.get_sample_value(NAME)
    assert value is not None
    assert isnan(value)
    process.end("the test is over")
    process.run()
