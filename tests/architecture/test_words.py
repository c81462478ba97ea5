"""Words that are in no file: marks of unfinished work, traces of one machine, places of packages."""

import re

from tests.architecture.checkout import texts

# Put together here, so that this file holds none of them itself.
MARKS = ("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK", "W" + "IP", "NO" + "COMMIT")
MARK = re.compile(rf"\b({'|'.join(MARKS)})\b")
HOME = re.compile(r"(?<![\w.~$}])/(?:work|root|home|Users|workspace|mnt)/\w[\w./-]*")
HOSTS = (
    *("pypi" + ".org", "files.python" + "hosted.org", "proxy.golang" + ".org", "sum.golang" + ".org"),
    *("registry." + "npmjs.org", "crates" + ".io", "conda." + "anaconda.org", "registry." + "k8s.io"),
    *("docker" + ".io", "gh" + "cr.io", "quay" + ".io", "g" + "cr.io", "nv" + "cr.io", "deb." + "debian.org"),
    *("archive." + "ubuntu.com", "rubygems" + ".org"),
)
HOST = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, HOSTS))})(?![\w-])")

RECORDED = ("tests/fixtures/", "requirements/")
"""What others have written, as it came."""
STOCK = "charts/gpu-booking/values.yaml:"
"""The one image of others' that an administrator's nodes pull: Kubernetes' own scheduler."""
GOOGLES = ": /ho" + "me/kubernetes/bin/nvidia"
"""Where every node of GKE has NVIDIA's driver."""


def places(pattern: re.Pattern[str]) -> list[str]:
    """Where a pattern occurs in tracked files."""
    return [
        f"{name}:{number}: {found[0]}"
        for name, text in texts()
        if not name.startswith(RECORDED) and name != "LICENSE"
        for number, line in enumerate(text.splitlines(), start=1)
        if (found := pattern.search(line))
    ]


def test_nothing_is_marked_as_unfinished() -> None:
    assert places(MARK) == []


def test_no_file_knows_the_folders_of_one_machine() -> None:
    assert [place for place in places(HOME) if not place.endswith(GOOGLES)] == []


def test_no_file_says_where_packages_and_images_come_from() -> None:
    assert [place for place in places(HOST) if not place.startswith(STOCK)] == []
