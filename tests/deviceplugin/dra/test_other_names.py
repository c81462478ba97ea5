"""The driver gets another name while claims have devices by the one before (law L1)."""

from pathlib import Path

from cluster import names
from deviceplugin.dra.prepare import Refusal
from deviceplugin.dra.prepared import PreparedClaim, PreparedFile
from deviceplugin.dra.serving import held_by_claims, prepared_file
from deviceplugin.nvml.watch import NvmlReport
from tests.deviceplugin.dra.test_prepare import allocation
from tests.deviceplugin.dra.test_serving import Site
from tests.deviceplugin.test_preparation import gpu

EARLIER = "gpu.example.com"


def records(root: Path) -> tuple[PreparedFile, PreparedFile]:
    """Of the earlier name, and of the one now."""
    earlier, now = (prepared_file(root, name, root) for name in (EARLIER, names.DRA_DRIVER))
    return earlier, now


def test_what_claims_have_by_an_earlier_name_is_given_to_nobody_until_they_end(tmp_path: Path) -> None:
    earlier, now = records(tmp_path)
    site = Site(tmp_path)
    site.claims = site.serving(file=earlier)
    site.claims.update(NvmlReport((gpu(0), gpu(1))))
    running = site.lab.claim("running", allocation("gpu-0"))
    assert isinstance(site.claims.driver.prepare(running), PreparedClaim)

    site.claims = site.serving(file=now)
    site.claims.update(NvmlReport((gpu(0), gpu(1))))
    assert site.offered() == set()
    assert "team/running" in (site.claims.problem or "")
    assert isinstance(site.claims.driver.prepare(site.lab.claim("late", allocation("gpu-1"))), Refusal)
    site.claims.driver.start()
    assert list((tmp_path / "cdi").glob("*.json")), "its containers may start again"

    earlier.write({})
    assert site.offered() == {"gpu-0", "gpu-1"}
    site.claims.registration._end()


def test_our_device_plugin_holds_back_what_claims_have_by_any_name(tmp_path: Path) -> None:
    earlier, now = records(tmp_path)
    site = Site(tmp_path)
    claims = site.serving(file=earlier)
    claims.update(NvmlReport((gpu(0),)))
    claims.driver.prepare(site.lab.claim("running", allocation("gpu-0")))
    assert held_by_claims(now) == {"GPU-0"}
    next((tmp_path / "plugins" / EARLIER).glob("*.json")).write_text("{")
    assert held_by_claims(now) is None
