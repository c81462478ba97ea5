"""``kubectl gpu policy``: the policy that is in force, and whether a policy decides as it should."""

from pathlib import Path
from typing import Any

import click
import msgspec
import msgspec.yaml

from booking.cases import CaseFileError, Outcome, replay_file
from booking.cli.failure import CommandError
from booking.cli.output import Format, printing
from booking.cli.reach import reach_of, reaching


@click.group()
def policy() -> None:
    """The rules of booking as this installation has them."""


@policy.command()
@printing
@reaching
def show(output: Format, **options: Any) -> None:
    """Show the policy that is in force, and what it means for you."""
    reach = reach_of(options)
    answer = {"policy": reach.api.get("/policy"), "me": reach.api.get("/me")}
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    else:
        click.echo(msgspec.yaml.encode(answer), nl=False)


@policy.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True)
)
def test(files: tuple[Path, ...]) -> None:
    """Replay case FILES against the policy that each of them names; nobody is asked, nothing is booked.

    Ends with status 1 where an answer is not the expected one.
    """
    outcomes = [(path, outcome) for path in files for outcome in _replayed(path)]
    wrong = [(path, outcome) for path, outcome in outcomes if outcome.differs]
    for path, outcome in wrong:
        click.echo(f"{path}: {outcome.name}: {outcome.differs}")
        for sentence in outcome.sentences:
            click.echo(f"  {sentence}")
    if wrong:
        raise CommandError(f"{len(wrong)} of {len(outcomes)} cases differ from what was expected.")
    click.echo(f"{len(outcomes)} cases are decided as expected.")


def _replayed(path: Path) -> tuple[Outcome, ...]:
    try:
        return replay_file(path)
    except CaseFileError as error:
        raise CommandError(str(error)) from error
