from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.errors import StoreError
from booking.server.store.url import Server, address_of, path_of


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
def test_any_other_url_is_refused_with_a_valid_example(url: str) -> None:
    with pytest.raises(StoreError, match=r"for example sqlite:////var/lib/gpu-booking/bookings\.db"):
        path_of(url)


def test_a_url_of_postgresql_names_server_user_and_database() -> None:
    server = address_of("postgresql://alice:p%40ss@db.example:6432/bookings?sslmode=verify-full")
    assert isinstance(server, Server)
    assert (server.host, server.port, server.user) == ("db.example", 6432, "alice")
    assert (server.password, server.database) == ("p@ss", "bookings")
    assert server.options == {"sslmode": "verify-full"}
    assert server.shown == "bookings on db.example:6432"


def test_the_folder_of_a_socket_and_a_password_file_are_options() -> None:
    server = address_of(
        "postgresql://alice@/bookings?host=/run/postgresql&password_file=/etc/secret/password"
    )
    assert isinstance(server, Server)
    assert (server.host, server.port, server.password) == ("/run/postgresql", 5432, None)
    assert server.password_file == Path("/etc/secret/password")
    assert server.options == {}


def test_the_answer_timeout_is_an_option_of_ours() -> None:
    server = address_of("postgresql://alice@db/bookings?answer_timeout=2.5&connect_timeout=3")
    assert isinstance(server, Server)
    assert (server.answer_timeout, server.options) == (2.5, {"connect_timeout": "3"})
    for wrong in ("0", "-1", "nan", "inf", "1e300", "soon", ""):
        with pytest.raises(
            StoreError, match=f"cannot be used: answer_timeout={wrong} is not a number of seconds"
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
def test_an_invalid_url_is_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        address_of(url)
    message = f"{refused.value}{refused.value.__cause__ or ''}"
    assert "postgresql://user@host:5432/database" in message
    assert "hush" not in message


WORDS = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1, max_size=9
)


def quoted(text: str) -> str:
    return quote(text, safe="")


@given(WORDS, WORDS, WORDS.filter(lambda name: "/" not in name), WORDS)
def test_any_word_can_be_percent_encoded(user: str, password: str, database: str, root: str) -> None:
    server = address_of(
        f"postgresql://{quoted(user)}:{quoted(password)}@db:1/{quoted(database)}?sslrootcert={quoted(root)}"
    )
    assert isinstance(server, Server)
    assert (server.user, server.password, server.database) == (user, password, database)
    assert server.options == {"sslrootcert": root}
    assert server.shown == f"{database} on db:1"


def refusal(url: str) -> str | None:
    """The message of its refusal; None when it is an address."""
    try:
        address_of(url)
    except StoreError as error:
        return str(error)
    return None


@given(st.text(), st.sampled_from(("", "sqlite:///", "postgresql:", "postgresql://", "postgresql://a@")))
def test_any_text_is_an_address_or_is_refused_with_a_message(text: str, before: str) -> None:
    message = refusal(before + text)
    assert message is None or message.startswith(
        ("The database ", "The PostgreSQL database cannot be used: ")
    )


@pytest.mark.parametrize(
    ("url", "host", "port", "shown"),
    [
        ("postgresql://a@db/b", "db", 5432, "b on db:5432"),
        ("postgresql://a@DB.example:1/b", "db.example", 1, "b on db.example:1"),
        ("postgresql://a@[::1]:6432/b", "::1", 6432, "b on ::1:6432"),
        ("postgresql://a@/b", "", 5432, "b on localhost:5432"),
        ("postgresql://a@db/b?host=/run", "/run", 5432, "b on /run:5432"),
        ("postgresql://a@%2Frun%2Fpg/b", "/run/pg", 5432, "b on /run/pg:5432"),
    ],
    ids=["a name", "a port", "an address", "none", "a folder", "a folder in its place"],
)
def test_a_server_is_shown_by_database_host_and_port(url: str, host: str, port: int, shown: str) -> None:
    server = address_of(url)
    assert isinstance(server, Server)
    assert (server.host, server.port, server.shown) == (host, port, shown)


@pytest.mark.parametrize("url", ["postgresql://a@db/b", "postgresql://a:@db/b", "postgresql://a:p@db/b"])
def test_a_password_may_be_missing_empty_or_given_and_is_never_shown(url: str) -> None:
    server = address_of(url)
    assert isinstance(server, Server)
    assert server.password == {"a@": None, "a:@": "", "a:p@": "p"}[url.removeprefix("postgresql://")[:-4]]
    assert "p@" not in server.shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://alice:hush@host/b", "'mysql…@host/b'"),
        ("alice:hush@host", "'…@host'"),
        ("sqlite:/bookings.db", "'sqlite:/bookings.db'"),
        ("x://a:hu@sh@host", "'x…@host'"),
    ],
)
def test_an_invalid_url_is_shown_only_after_its_last_at_sign(url: str, shown: str) -> None:
    with pytest.raises(StoreError) as refused:
        path_of(url)
    assert str(refused.value).startswith(f"The database {shown} cannot be used: write sqlite:/// and")


@pytest.mark.parametrize(
    ("query", "seconds"), [("", 35.0), ("?answer_timeout=0.001", 0.001), ("?answer_timeout=3600", 3600.0)]
)
def test_an_answer_may_take_up_to_an_hour(query: str, seconds: float) -> None:
    server = address_of(f"postgresql://a@db/b{query}")
    assert isinstance(server, Server)
    assert server.answer_timeout == seconds


def test_an_answer_may_not_take_longer_than_an_hour() -> None:
    with pytest.raises(
        StoreError, match=r"answer_timeout=3600\.1 is not a number of seconds between 0 and 3600\."
    ):
        address_of("postgresql://a@db/b?answer_timeout=3600.1")
