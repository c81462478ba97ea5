"""``kubectl gpu policy``: the policy that is in force, and whether a policy decides as it should."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from booking import durations, wording
from booking.cli import bookings
from booking.cli import output as printed
from booking.cli.completions import known_models
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.errors import CommandError
from booking.cli.output import FOR_PEOPLE, Column, Format, Row, printable, printing
from booking.cli.progress import patiently
from booking.cli.server_connection import ServerConnection
from booking.cli.typed_names import NAME

if TYPE_CHECKING:
    from booking.server.cases import Outcome

_ZONE: Final = "zone"
"""Listed among the limits of an answer, but not a limit: one zone applies to all."""


class CaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one case, for programs."""

    file: str
    name: str
    expected: tuple[str, ...]
    broken: tuple[str, ...]
    differs: str | None
    messages: tuple[str, ...]


@click.group()
@connection_options
def policy(**_options: Any) -> None:
    """The rules of booking as this installation has them."""


@policy.command()
@click.option("--model", type=NAME, shell_complete=known_models, help="What holds for GPUs of this model.")
@printing
@connection_options
def show(output: Format, **options: Any) -> None:
    """Show the policy that is in force, and the limits that hold for you.

    Models may have limits of their own: name one with --model. With -o wide it also shows the limits of users
    who are not named in the policy; with -o name only the version of the policy.
    """
    server = connection_of(options)
    model = bookings.known_model(server, options["model"]) if options["model"] else None
    answer = {name: server.api.get(f"/{name}", {"model": model}) for name in ("policy", "me")}
    _show(server, answer, output, model=model)


@policy.command(short_help="Replay case FILES: does a policy decide as expected?")
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True)
)
@printing
def test(files: tuple[Path, ...], output: Format) -> None:
    """Replay case FILES against the policy that each of them names; no server is asked, nothing is booked.

    Prints the cases that are not decided as expected; with -o wide, json or yaml all of them. Ends with
    status 1 where an answer is not the expected one.
    """
    what = str(files[0]) if len(files) == 1 else f"{len(files)} files"
    with patiently(f"replaying the cases of {printable(what)}"):
        outcomes = [_case_outcome(path, outcome) for path in files for outcome in _replayed(path)]
    wrong = [outcome for outcome in outcomes if outcome.differs]
    if output == "table":
        _show_wrong(wrong)
    else:
        _show_outcomes(outcomes, wrong, output)
    if wrong:
        raise CommandError(
            f"{len(wrong)} of {wording.counted(len(outcomes), 'case')} "
            f"{'differs' if len(wrong) == 1 else 'differ'} from what was expected."
        )
    if output in FOR_PEOPLE:
        is_are = "is" if len(outcomes) == 1 else "are"
        click.echo(f"{wording.counted(len(outcomes), 'case')} {is_are} decided as expected.")


def _show(server: ServerConnection, answer: dict[str, Any], output: Format, *, model: str | None) -> None:
    """Print the policy; by default as a table, like every other command, and like kubectl's.

    So the help of ``-o`` is true here, too: ``table`` prints a table, and programs that want YAML request it.
    """
    force, me = answer["policy"], answer["me"]
    if output in FOR_PEOPLE:
        form = f"(in the form of version {printable(str(force.get('file_version', 1)))})"
        of_model = f" who books GPUs of model {model}" if model else ""
        click.echo(
            f"Policy {printable(force['version'])} {form} of the booking server {server.api.url}, for "
            f"{printable(me['user'])}{printable(of_model)}. Days are those of {printable(force['zone'])}."
        )
    rows = [
        {"limit": name, "value": value, "everybody": force["limits"].get(name)}
        for name, value in me["limits"].items()
        if name != _ZONE
    ]
    columns = (
        Column("LIMIT", lambda r: r["limit"]),
        Column("FOR YOU", lambda r: _limit(r["value"])),
        Column("FOR EVERYBODY", lambda r: _limit(r["everybody"]), wide=True),
    )
    printed.show(
        answer,
        [force] if output == "name" else rows,
        columns,
        output=output,
        name=lambda row: str(row["version"]),
        empty="The booking server names no limits.",
    )


def _limit(value: object) -> str:
    """A limit for people: as the policy file writes it, except for lengths."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return durations.words(durations.read(str(value))) if isinstance(value, str) else str(value)
    except durations.DurationError:
        return str(value)


def _replayed(path: Path) -> tuple["Outcome", ...]:
    """The outcomes of a file. The rules of booking are loaded for this alone: no other command needs them."""
    cases = import_module("booking.server.cases")
    try:
        outcomes: tuple[Outcome, ...] = cases.replay_file(path)
    except cases.CaseFileError as error:
        raise CommandError(str(error)) from error
    return outcomes


def _case_outcome(path: Path, outcome: "Outcome") -> CaseOutcome:
    return CaseOutcome(file=str(path), **msgspec.structs.asdict(outcome))


def _show_wrong(wrong: Iterable[CaseOutcome]) -> None:
    for outcome in wrong:
        click.echo(printable(f"{outcome.file}: {outcome.name}: {outcome.differs}"))
        for message in outcome.messages:
            click.echo(f"  {printable(message)}")


def _show_outcomes(outcomes: Sequence[CaseOutcome], wrong: Sequence[CaseOutcome], output: Format) -> None:
    rows: list[Row] = [msgspec.to_builtins(each) for each in (wrong if output == "name" else outcomes)]
    columns = (
        Column("FILE", lambda o: o["file"]),
        Column("CASE", lambda o: o["name"]),
        Column("EXPECTED", lambda o: _answer(o["expected"])),
        Column("ANSWER", lambda o: _answer(o["broken"])),
        Column("DIFFERS", lambda o: o["differs"]),
        Column("MESSAGES", lambda o: " ".join(o["messages"])),
    )
    printed.show(
        {"cases": len(outcomes), "differing": len(wrong), "outcomes": rows},
        rows,
        columns,
        output=output,
        name=lambda o: printable(f"{o['file']}: {o['name']}"),
        empty="There are no cases.",
    )


def _answer(rules: Iterable[str]) -> str:
    return wording.listed(rules) or "accepted"
