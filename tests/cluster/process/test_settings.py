from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from structlog.testing import capture_logs

from cluster.process.settings import SettingsError, load

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Example(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    probe_port: Port = 8080
    log_level: Literal["info", "debug"] = "info"
    token_file: Path | None = None
    models: tuple[str, ...] = ()
    kinds: Annotated[frozenset[str], msgspec.Meta(max_length=2)] | None = None
    dry_run: bool = False
    patience: float = 1.5


def test_defaults_stand_where_nothing_is_said() -> None:
    assert load(Example, {"GPU_BOOKING_NODE": "n0"}) == Example(node="n0")


def test_variables_are_read_as_their_fields_types() -> None:
    environ = {
        "GPU_BOOKING_NODE": "n0",
        "GPU_BOOKING_PROBE_PORT": "0",
        "GPU_BOOKING_LOG_LEVEL": "debug",
        "GPU_BOOKING_TOKEN_FILE": "/run/token",
        "GPU_BOOKING_MODELS": "A100, H200,",
        "GPU_BOOKING_DRY_RUN": "true",
        "GPU_BOOKING_PATIENCE": "2",
    }
    assert load(Example, environ) == Example(
        node="n0",
        probe_port=0,
        log_level="debug",
        token_file=Path("/run/token"),
        models=("A100", "H200"),
        dry_run=True,
        patience=2.0,
    )


def test_a_list_may_be_optional_and_constrained() -> None:
    environ = {"GPU_BOOKING_NODE": "n0", "GPU_BOOKING_KINDS": "a,b"}
    assert load(Example, environ).kinds == frozenset({"a", "b"})
    with pytest.raises(SettingsError, match="GPU_BOOKING_KINDS is 'a,b,c': Expected `array` of length <= 2"):
        load(Example, {**environ, "GPU_BOOKING_KINDS": "a,b,c"})


def test_a_list_of_paths_may_be_json() -> None:
    class Folders(msgspec.Struct, frozen=True):
        folders: tuple[Path, ...] = ()

    for text in ('["/a","/b, c"]', "[]"):
        given = load(Folders, {"GPU_BOOKING_FOLDERS": text})
        assert given.folders == tuple(map(Path, msgspec.json.decode(text)))


def test_a_list_may_be_json() -> None:
    environ = {"GPU_BOOKING_NODE": "n0", "GPU_BOOKING_MODELS": '["A100", "H200, 141 GB"]'}
    assert load(Example, environ).models == ("A100", "H200, 141 GB")


def test_an_empty_variable_counts_as_not_set() -> None:
    environ = {"GPU_BOOKING_NODE": "n0", "GPU_BOOKING_TOKEN_FILE": "", "GPU_BOOKING_PROBE_PORT": ""}
    assert load(Example, environ) == Example(node="n0")


@pytest.mark.parametrize(
    ("name", "text"),
    [("s.json", '{"node": "file", "probe_port": 1}'), ("s.toml", 'node="file"\nprobe_port=1')],
)
def test_variables_win_over_the_file(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert load(Example, {"GPU_BOOKING_NODE": "environment"}, tmp_path / name) == Example(
        node="environment", probe_port=1
    )


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("PROBE_PORT", "many", "Expected `int`, got `str`"),
        ("PROBE_PORT", "65536", "Expected `int` <= 65535"),
        ("LOG_LEVEL", "loud", "Invalid enum value 'loud'"),
        ("DRY_RUN", "maybe", "Expected `bool`"),
    ],
)
def test_a_wrong_variable_is_named_with_what_was_expected(variable: str, value: str, expected: str) -> None:
    environ = {"GPU_BOOKING_NODE": "n0", f"GPU_BOOKING_{variable}": value}
    with pytest.raises(SettingsError) as caught:
        load(Example, environ)
    assert f"GPU_BOOKING_{variable} is {value!r}: {expected}" in str(caught.value)


def test_a_wrong_value_in_the_file_is_named_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"node": "n0", "probe_port": "80"}')
    with pytest.raises(SettingsError, match=rf"'probe_port' in {file} is '80': Expected `int`"):
        load(Example, {}, file)


def test_everything_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    file.write_text('{"prob_port": 80}')
    with pytest.raises(SettingsError) as caught:
        load(Example, {"GPU_BOOKING_DRY_RUN": "?"}, file)
    assert "unknown key 'prob_port' (is 'probe_port' meant?)" in str(caught.value)
    assert "'node' is missing: set GPU_BOOKING_NODE" in str(caught.value)
    assert "GPU_BOOKING_DRY_RUN is '?'" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.json", "{", "is not JSON"),
        ("s.json", "[]", "must hold an object"),
        ("s.toml", "= 1", "is not TOML"),
        ("s.json", None, "cannot be read: No such file"),
    ],
)
def test_an_unreadable_file_is_a_sentence(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(SettingsError, match=message):
        load(Example, {"GPU_BOOKING_NODE": "n0"}, file)


def test_an_unknown_variable_of_ours_is_warned_about_and_a_service_link_is_not() -> None:
    environ = {
        "GPU_BOOKING_NODE": "n0",
        "GPU_BOOKING_PROBE_PORTS": "1",
        "GPU_BOOKING_EXTENDER_SERVICE_HOST": "10.0.0.1",
        "OTHER": "x",
    }
    with capture_logs() as lines:
        load(Example, environ)
    assert [line["variable"] for line in lines] == ["GPU_BOOKING_PROBE_PORTS"]


def test_what_a_struct_itself_refuses_is_a_settings_error() -> None:
    class Pair(msgspec.Struct):
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low must not be above high.")

    with pytest.raises(SettingsError, match="low must not be above high"):
        load(Pair, {"T_LOW": "2", "T_HIGH": "1"}, prefix="T_")


def test_a_variable_names_the_file_and_the_environment_still_wins(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('node = "from-the-file"')
    named = {"GPU_BOOKING_SETTINGS_FILE": str(file)}
    with capture_logs() as lines:
        assert load(Example, named).node == "from-the-file"
        assert load(Example, {**named, "GPU_BOOKING_NODE": "n0"}).node == "n0"
    assert not lines
