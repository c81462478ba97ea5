"""``gpu-booking demo``, ``make demo``, ``python -m demo``: show the whole product in a browser."""

import os
import shutil
import signal
import sys
import webbrowser
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click

from booking.server.errors import StoreError
from cluster import names
from cluster.process import logs
from cluster.process.clock import SystemClock
from cluster.process.probes import ServeError
from demo.lab.nodes import LAB, MOST
from demo.lab.people import ALICE
from demo.run import Demo, DemoError, Options, build, folder_of

PORT: Final = 8765
LOCALTIME: Final = Path("/etc/localtime")
ZONES: Final = "zoneinfo/"
UTC: Final = "UTC"
PAGE: Final = "open.html"
SCREENS: Final = ("DISPLAY", "WAYLAND_DISPLAY")
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port on this machine; 0: any.",
)
@click.option(
    "--nodes", type=click.IntRange(1, MOST), default=len(LAB), show_default=True, help="Size of the site."
)
@click.option("--empty", is_flag=True, help="Nodes alone: no bookings, and nobody who works there.")
@click.option("--keep", type=click.Path(path_type=Path), help="Folder in which the database stays.")
@click.option("--no-browser", is_flag=True, help="Open no browser.")
def demo(*, port: int, nodes: int, empty: bool, keep: Path | None, no_browser: bool) -> None:
    """Show GPU Booking without a cluster: the real product on simulated GPUs, on a port of this machine."""
    options = Options(port=port, nodes=nodes, empty=empty, keep=keep, zone=zone_of_machine())
    logs.configure(level="error", style="console")
    _handle(ENDING, _leave)
    try:
        with folder_of(keep) as folder:
            shown = build(options, folder, SystemClock())
            _greet(shown, folder, opens=not no_browser)
            _handle([signal.SIGHUP], lambda *_: shown.process.end("the terminal was closed"))
            code = shown.process.run()
            _handle(ENDING, signal.SIG_IGN)
    except (DemoError, StoreError) as error:
        raise click.ClickException(str(error)) from error
    except ServeError as error:
        raise click.ClickException(
            f"{error}. Perhaps another demo is running: name another one with --port."
        ) from error
    click.echo("The demo has ended." if keep is None else f"The demo has ended; its database is in {keep}.")
    sys.exit(code)


def _handle(
    numbers: Iterable[signal.Signals], handler: Callable[[int, Any], object] | signal.Handlers
) -> None:
    for number in numbers:
        signal.signal(number, handler)


def _leave(number: int, _frame: Any) -> NoReturn:
    """Go at once, but tidy up: by itself a signal ends Python where it stands."""
    sys.exit(128 + number)


def zone_of_machine() -> str:
    """The machine's time zone, as the IANA database calls it; UTC where it has no such name."""
    found = os.environ.get("TZ") or str(LOCALTIME.resolve()).rpartition(ZONES)[2]
    try:
        zone = str(ZoneInfo(found.removeprefix(":")))
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return UTC
    return UTC if zone.endswith(UTC) else zone


def _greet(shown: Demo, folder: Path, *, opens: bool) -> None:
    token = shown.site.tokens.of[ALICE]
    click.echo(f"\n  {shown.address}\n")
    click.echo("Open this address: it signs you in as alice. Ctrl-C ends the demo.")
    click.echo("The command line works as well, in another terminal:\n")
    click.echo(f"  export {names.setting('url')}={shown.url} {names.setting('token')}={token}")
    click.echo(f"  {_command()} status\n")
    if opens and not _opened(shown.address, folder):
        click.echo("No browser was found on this machine: open the address in yours.")


def _command() -> str:
    """How the command line is called where the demo was called."""
    program = Path(sys.executable).with_name(names.PROGRAM)
    if not program.exists():
        return f"{os.path.relpath(sys.executable)} -m booking.cli"
    return names.PROGRAM if shutil.which(names.PROGRAM) == str(program) else os.path.relpath(program)


def _opened(address: str, folder: Path) -> bool:
    """Open a browser by a page that only this user can read: arguments of programs can be read by all."""
    if sys.platform != "darwin" and not any(map(os.environ.get, SCREENS)):
        return False
    page = folder / PAGE
    page.touch(mode=0o600)
    page.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8"
    )
    try:
        return webbrowser.open(page.as_uri())
    except webbrowser.Error:
        return False


if __name__ == "__main__":
    demo(prog_name="python -m demo")
