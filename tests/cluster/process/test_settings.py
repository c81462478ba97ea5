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


def test_settings_that_are_not_given_have_their_defaults() -> None:
    assert load(Example, {"GPU_BOOKING_NODE": "n0"}) == Example(node="n0")


def test_variables_are_read_as_the_types_of_their_fields() -> None:
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


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        load(Example, {"GPU_BOOKING_DRY_RUN": "?", "GPU_BOOKING_PROBE_PORT": "-1"})
    missing, port, dry_run = str(caught.value).splitlines()
    assert "'node' is missing: set GPU_BOOKING_NODE" in missing
    assert "GPU_BOOKING_PROBE_PORT is '-1'" in port
    assert "GPU_BOOKING_DRY_RUN is '?'" in dry_run


def test_an_unknown_variable_of_ours_causes_a_warning_and_a_service_link_does_not() -> None:
    environ = {
        "GPU_BOOKING_NODE": "n0",
        "GPU_BOOKING_PROBE_PORTS": "1",
        "GPU_BOOKING_EXTENDER_SERVICE_HOST": "10.0.0.1",
        "OTHER": "x",
    }
    with capture_logs() as lines:
        load(Example, environ)
    assert lines == [
        {
            "event": "the environment variable is not a setting of this program: ignored",
            "variable": "GPU_BOOKING_PROBE_PORTS",
            "log_level": "warning",
        }
    ]


def test_a_value_that_the_struct_itself_refuses_is_a_settings_error() -> None:
    class Pair(msgspec.Struct):
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low must not be above high.")

    with pytest.raises(SettingsError, match="low must not be above high"):
        load(Pair, {"GPU_BOOKING_LOW": "2", "GPU_BOOKING_HIGH": "1"})
