"""A model that an earlier server stored in another form is stored in label form once a database is opened."""

from contextlib import closing
from pathlib import Path

from booking.server.store import open_store
from booking.server.store_records import Block, Filters
from tests.fakes.records import a_record, day

BEFORE, AFTER = "Quadro-RTX-6000/8000-[TU102]", "Quadro-RTX-60008000-TU102"


def test_bookings_and_maintenance_of_an_earlier_server_keep_their_model(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/bookings.db"
    block = Block(
        id="m-1",
        node="n0",
        model=BEFORE,
        count=1,
        start=day(0),
        end=day(1),
        reason="dust",
        created_by="bob",
        created=day(0),
    )
    with closing(open_store(url)) as store:
        store.write(lambda writing: writing.add(a_record(model=BEFORE)))
        store.write(lambda writing: writing.block_add(block))
    with closing(open_store(url)) as store:
        of_model, _ = store.read(
            lambda reading: reading.page(Filters(model=AFTER), now=day(0), after=None, limit=9)
        )
        assert [record.id for record in of_model] == ["b-one"]
        assert [each.model for each in store.read(lambda reading: reading.blocks(start=day(0)))] == [AFTER]
