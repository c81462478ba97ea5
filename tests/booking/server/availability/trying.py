"""Whether bookings of one node each can be placed at all."""

from collections.abc import Mapping, Sequence

from booking.server.records import Record


def has_a_placement(records: Sequence[Record], devices: Mapping[str, int]) -> bool:
    """Whether each of them could be on one node for all of its time: by trying everything.

    Of nodes on which the same is free one is enough.
    """
    ordered = sorted(records, key=lambda one: (one.start, -one.count, one.id))
    there: dict[str, list[Record]] = {name: [] for name in devices}

    def search(index: int) -> bool:
        if index == len(ordered):
            return True
        record = ordered[index]
        tried = set()
        for name, count in devices.items():
            placed = tuple(sorted((r.end, r.count) for r in there[name] if r.end > record.start))
            # By their start: the node is fullest at this one's start.
            if (count, placed) in tried or sum(size for _, size in placed) + record.count > count:
                continue
            tried.add((count, placed))
            there[name].append(record)
            if search(index + 1):
                return True
            there[name].pop()
        return False

    return search(0)
