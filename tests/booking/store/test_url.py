from pathlib import Path

import pytest

from booking.errors import StoreError
from booking.store.url import Server, address_of, path_of


def test_three_slashes_are_a_relative_path_and_four_an_absolute_one() -> None:
    assert path_of("sqlite:///data/bookings.db") == Path("data/bookings.db")
    assert path_of("sqlite:////var/lib/bookings.db") == Path("/var/lib/bookings.db")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/var/lib/bookings.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:////",
        "sqlite:///:memory:",
        "sqlite:///a\0b",
    ],
)
def test_any_other_url_is_refused_with_an_example_of_a_right_one(url: str) -> None:
    with pytest.raises(StoreError, match=r"for example sqlite:////var/lib/gpu-booking/bookings\.db"):
        path_of(url)


def test_a_url_of_postgresql_names_server_user_and_database() -> None:
    server = address_of("postgresql://alice:p%40ss@db.example:6432/bookings?sslmode=verify-full")
    assert isinstance(server, Server)
    assert (server.host, server.port, server.user) == ("db.example", 6432, "alice")
    assert (server.password, server.database) == ("p@ss", "bookings")
    assert server.options == {"sslmode": "verify-full"}
    assert server.shown == "bookings on db.example:6432"


def test_a_socket_s_folder_and_a_password_s_file_are_options() -> None:
    server = address_of(
        "postgresql://alice@/bookings?host=/run/postgresql&password_file=/etc/secret/password"
    )
    assert isinstance(server, Server)
    assert (server.host, server.port, server.password) == ("/run/postgresql", 5432, None)
    assert server.password_file == Path("/etc/secret/password")
    assert server.options == {}


def test_how_long_an_answer_may_take_is_our_own_word() -> None:
    server = address_of("postgresql://alice@db/bookings?answer_timeout=2.5&connect_timeout=3")
    assert isinstance(server, Server)
    assert (server.answer_timeout, server.options) == (2.5, {"connect_timeout": "3"})
    for wrong in ("0", "-1", "nan", "inf", "1e300", "soon", ""):
        with pytest.raises(
            StoreError, match=f"cannot be used: answer_timeout={wrong} is no number of seconds"
        ):
            address_of(f"postgresql://alice@db/bookings?answer_timeout={wrong}")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://host/bookings",
        "postgresql://alice:hush@host",
        "postgresql://alice:hush@host/",
        "postgresql://alice:hush@host/a/b",
        "postgresql://alice:hush@host:port/bookings",
        "postgresql://alice:hush@host/bookings#hush",
        "postgresql://alice:hush@host/book%00ings",
        "postgresql://alice:hush@[host/bookings",
        "postgresql:",
        "mysql://alice:hush@host/bookings",
        "alice:hush@host",
    ],
)
def test_a_url_that_is_none_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        address_of(url)
    said = f"{refused.value}{refused.value.__cause__ or ''}"
    assert "postgresql://user@host:5432/database" in said
    assert "hush" not in said
