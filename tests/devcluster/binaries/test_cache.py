import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.binaries.cache import cache_folder, kept
from devcluster.binaries.errors import BuildError


def writing(text: str) -> Callable[[Path], None]:
    def make(draft: Path) -> None:
        (draft / "result").write_text(text)

    return make


def refuse(_draft: Path) -> None:
    raise AssertionError("nothing was to be made")


def has_result(place: Path) -> bool:
    return (place / "result").is_file()


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"GPU_BOOKING_CACHE": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/gpu-booking"),
        ({"GPU_BOOKING_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/gpu-booking"),
    ],
)
def test_the_folder_is_ours_or_below_the_users_cache(environment: dict[str, str], expected: str) -> None:
    assert cache_folder(environment) == Path(expected)


def test_a_result_is_built_once_and_then_found(tmp_path: Path) -> None:
    place = tmp_path / "binaries" / "key"
    assert kept(place, writing("first")) == place
    assert kept(place, refuse) == place
    assert (place / "result").read_text() == "first"


@pytest.mark.parametrize("error", [BuildError, KeyboardInterrupt])
def test_an_interrupted_build_leaves_no_folder_at_all(tmp_path: Path, error: type[BaseException]) -> None:
    def interrupted(draft: Path) -> None:
        writing("half")(draft)
        raise error

    with pytest.raises(error):
        kept(tmp_path / "key", interrupted)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    assert has_result(kept(tmp_path / "key", writing("whole")))


def test_a_result_appears_in_its_place_only_when_it_is_complete(tmp_path: Path) -> None:
    place = tmp_path / "key"

    def make(draft: Path) -> None:
        writing("half")(draft)
        assert not place.exists()

    kept(place, make)
    assert has_result(place)


def test_a_damaged_result_is_rebuilt(tmp_path: Path) -> None:
    place = kept(tmp_path / "key", writing("first"), whole=has_result)
    (place / "result").unlink()
    kept(place, writing("second"), whole=has_result)
    assert (place / "result").read_text() == "second"


def test_one_of_two_builders_builds_while_the_other_waits_and_reports_it(tmp_path: Path) -> None:
    place = tmp_path / "key"
    building, waited = threading.Event(), threading.Event()

    def slow(draft: Path) -> None:
        building.set()
        assert waited.wait(30)
        writing("of the first")(draft)

    first = threading.Thread(target=kept, args=(place, slow))
    first.start()
    assert building.wait(30)
    kept(place, refuse, waiting=waited.set)
    first.join()
    assert (place / "result").read_text() == "of the first"


def test_a_folder_that_cannot_be_written_is_reported_with_the_setting_that_helps(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BuildError, match=r"File exists.*another folder by GPU_BOOKING_CACHE"):
        kept(tmp_path / "file" / "key", refuse)
