"""Fair shares: who gets the next GPU of a model, and what is taken back for whom. Pure.

Everything is per model (a MIG profile is a model). Instants and spans are whole microseconds, work is
GPU-microseconds, amounts are GPUs. What the caller does in each pass, for each model:

1. Keep a ``Line`` by event: ``add(Unit)`` for each waiting unit without a hold that some set of nodes could
   hold if it were empty, ``remove(uid)`` when it starts, has a hold, or is gone. A ``Unit``: a pod or a gang.
2. ``books = advance(books, shares, now, settings, largest=line.largest)`` with the shares *since the last
   pass* (also ``booked`` and ``value``, for ties); then
   ``shares = deserve(tree, capacity, held, line.wanted)`` from the present; then ``observe(books, shares)``.
   ``held``: tenant -> GPUs of its evictable units without a booking, bound or with a hold.
3. ``for unit, placed in grants(line, shares, books, place)``: the units that start now, in order.
   ``place(unit)`` simulates on the snapshot, reserves what it finds and returns it (a node, anything)
   or None. After them, ``shares.after({tenant: gpus, ...})`` and ``line.remove(uid)``.
   ``in_turn(line, shares, books)`` lists all waiting units in order, for a queue's positions.
4. Mode reclaim: ``reclaim(Pass(line=..., shares=..., books=..., running=..., places=..., settings=...))``.
   ``running``: pod's uid -> ``Running`` of every unit that may be evicted. ``places`` (``search.Places``) is
   the snapshot: ``bounds`` and ``candidate`` of ``eviction.victim_selection.NodeCandidate``, ``suits`` by the
   checker, ``elsewhere``, ``settle``. The ``Outcome`` has a ``Reclaim`` per unit: ``found.selections`` (one
   per pod, with devices and victims), ``found.units`` that leave, ``kind`` 1 or 2 (2: set
   ``turn_until = start + settings.turn``), and the books and shares after them. ``verdicts`` say why nothing
   is taken for the others (``reason``, ``due_in``): until ``due_in`` has passed or something has changed,
   ``is_known_to_fail`` may skip a unit.
5. Before each eviction: ``is_legal(Case(...), victims, lost)`` on fresh shares, as if the unit still waited
   and no victim had been taken. It must answer the class of the plan.

``Books`` is the only state that Kubernetes objects cannot rebuild: keep it in one object. Empty books are
safe: turns wait, and nothing is taken until a tenant has been starved for ``reclaim_after`` again.
"""

from cluster.decide.fairshare.books import Account, Books, advance, observe
from cluster.decide.fairshare.legality import Case, Verdict
from cluster.decide.fairshare.line import Line
from cluster.decide.fairshare.order import grants, in_turn
from cluster.decide.fairshare.reclaiming import Outcome, Pass, Reclaim, is_legal, reclaim
from cluster.decide.fairshare.search import Found, Places, Search
from cluster.decide.fairshare.settings import ShareSettings
from cluster.decide.fairshare.shares import Shares, deserve
from cluster.decide.fairshare.tenants import EQUAL, Standing, Tenant, Tree
from cluster.decide.fairshare.units import Running, Unit

__all__ = [
    "EQUAL",
    "Account",
    "Books",
    "Case",
    "Found",
    "Line",
    "Outcome",
    "Pass",
    "Places",
    "Reclaim",
    "Running",
    "Search",
    "ShareSettings",
    "Shares",
    "Standing",
    "Tenant",
    "Tree",
    "Unit",
    "Verdict",
    "advance",
    "deserve",
    "grants",
    "in_turn",
    "is_legal",
    "observe",
    "reclaim",
]
