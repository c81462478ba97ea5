"""Law L9: objects of another database, or of a newer copy of ours, are seen and named."""

from booking.server.mirror.store_identity import older_than_written, strangers_among, unknown_among
from cluster import names
from cluster.objects.bookings import Booking
from tests.fakes.objects import a_booking


def objects(*names: str, store_id: str = "ours") -> list[Booking]:
    return [a_booking(name, storeId=store_id) for name in names]


def test_our_own_objects_are_not_foreign() -> None:
    assert strangers_among(objects("b-1", "b-2"), store_id="ours") is None
    assert strangers_among([], store_id="ours") is None


def test_l9_a_single_foreign_object_is_named_with_its_database_and_what_to_do() -> None:
    message = strangers_among([*objects("b-1"), *objects("b-2", store_id="theirs")], store_id="ours")

    assert message == (
        "1 Booking object (b-2) in the cluster come from the booking database 'theirs', but 'ours' is open:"
        " nothing is written. Restore the database that they come from, or, if nobody needs them,"
        f" delete them: kubectl delete bookings.{names.DOMAIN} b-2."
    )


def test_l9_an_object_that_names_no_database_is_foreign() -> None:
    assert strangers_among(objects("b-1", store_id=""), store_id="ours")


def test_only_some_of_many_foreign_objects_are_named() -> None:
    message = strangers_among(objects(*"abcde", store_id="theirs"), store_id="ours")

    assert message is not None
    assert message.startswith("5 Booking objects (a, b, c, ...) in the cluster")


def test_known_objects_are_accepted() -> None:
    assert unknown_among(objects("b-1", "b-2"), {"b-1", "b-2", "b-3"}) is None


def test_l9_an_object_that_the_database_no_longer_knows_is_named() -> None:
    message = unknown_among(objects("b-1", "b-2"), {"b-1"})

    assert message is not None
    assert "1 Booking object (b-2)" in message
    assert "an older copy of it seems to have been restored" in message


def test_a_database_that_is_not_behind_the_written_change_is_accepted() -> None:
    for written in (None, 4, 5):
        assert older_than_written(5, written, lease="mirror -n here") is None


def test_l9_a_database_that_has_gone_back_is_reported_with_both_numbers() -> None:
    message = older_than_written(4, 5, lease="mirror -n here")

    assert message is not None
    assert "change 5 of this booking database already, and its newest is 4" in message
    assert message.endswith("kubectl delete lease mirror -n here.")
