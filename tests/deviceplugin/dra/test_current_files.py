"""The files of claims stay current while their containers may start again."""

import threading
from pathlib import Path

from cluster.fake.clock import eventually
from deviceplugin.device_cache import AdvertisedDevices
from deviceplugin.dra.prepared import PreparedClaim
from deviceplugin.nvml.watch import NvmlReport
from tests.deviceplugin.dra.test_prepare import allocation
from tests.deviceplugin.dra.test_serving import Site
from tests.deviceplugin.test_preparation import gpu


def test_a_container_that_starts_again_after_an_update_of_the_driver_gets_its_files(tmp_path: Path) -> None:
    """The kubelet calls nobody for it, and without the files of the version before it could not start."""
    site, stop = Site(tmp_path), threading.Event()
    site.claims.update(NvmlReport((gpu(0),)))
    assert isinstance(site.claims.driver.prepare(site.lab.claim("first", allocation("gpu-0"))), PreparedClaim)
    (path,) = (tmp_path / "cdi").glob("*.json")
    site.specification = b"of the new version"
    thread = threading.Thread(target=site.claims.loops["claims-changes"], args=(stop,))
    thread.start()
    try:
        eventually(lambda: path.read_bytes() == site.specification)
    finally:
        stop.set()
        thread.join()


def test_a_file_stays_as_it_is_while_the_device_nodes_are_not_known(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.claims.update(NvmlReport((gpu(0),)))
    site.claims.driver.prepare(site.lab.claim("first", allocation("gpu-0")))
    (path,) = (tmp_path / "cdi").glob("*.json")
    site.specification = b"of nothing"
    site.cache.put(AdvertisedDevices())
    site.claims.driver.refresh()
    assert path.read_bytes() == b"{}"
