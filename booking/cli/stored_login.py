"""The last login, in a file of the user's: a token for the booking server until shortly before it ends.

A file belongs to everything that decides who the user is: the contents of the kubeconfig, the context, the
server that is asked for, the environment of credential plugins. After a change of any of them there is a new
login. So no kubeconfig is parsed to find it.
"""

import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec

from booking.cli.connection_settings import URL, ConnectionOptions
from cluster import names
from cluster.process.clock import Clock

MARGIN: Final = timedelta(minutes=1)
"""A token that ends sooner is not used: its request could arrive too late."""
_PLUGINS: Final = ("AWS_", "AZURE_", "AAD_", "ARM_", "CLOUDSDK_", "GOOGLE_", "OS_", "TSH_", "KUBE")
"""Beginnings of environment variables that choose the user for common credential plugins."""
_OTHERS: Final = 0o077
"""Permissions of anybody but the owner."""
_SUFFIX: Final = ".json"
_LONGEST: Final = 1 << 20
"""Bytes of a file that are read."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What one login has found out."""

    token: str
    until: Annotated[datetime, msgspec.Meta(tz=True)]
    url: str
    """Of the booking server."""
    namespace: str
    """Of the context."""


class StoredLogin:
    """The login of these options and this environment; where no file can be kept, there is none."""

    def __init__(
        self, options: ConnectionOptions, environ: Mapping[str, str], clock: Clock, *, user: int
    ) -> None:
        """Read the kubeconfig's contents, and nothing else.

        Args:
            options: of the command line.
            environ: of the process.
            clock: the time.
            user: number of the process's user, to whom file and folder must belong.
        """
        self._clock, self._user = clock, user
        home = environ.get("HOME")
        state = environ.get("XDG_STATE_HOME") or (f"{home}/.local/state" if home else "")
        self._folder = Path(state) / names.PROGRAM
        key = _key(options, environ) if Path(state).is_absolute() else None
        self._name = f"{key}{_SUFFIX}" if key else None

    def read(self) -> Login | None:
        """The login, if it is good for some time; None if file or folder is not the user's alone."""
        if self._name is None:
            return None
        with suppress(OSError, msgspec.MsgspecError), self._opened() as folder:
            return self._usable(folder, self._name)
        return None

    def write(self, login: Login) -> None:
        """Store it, and remove those that have ended. Where that is impossible, nothing is stored."""
        if self._name is None:
            return
        with suppress(OSError):
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self._folder.mkdir(mode=0o700)
            with self._opened() as folder:
                self._clean(folder)
                written = f".{secrets.token_hex(8)}{_SUFFIX}"
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                with os.fdopen(os.open(written, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(msgspec.json.encode(login))
                # Replaces a link instead of following it.
                os.replace(written, self._name, src_dir_fd=folder, dst_dir_fd=folder)

    def forget(self) -> None:
        """Remove it: the server does not accept its token, or is not where it says."""
        if self._name is not None:
            with suppress(OSError), self._opened() as folder:
                os.unlink(self._name, dir_fd=folder)

    def _usable(self, folder: int, name: str) -> Login | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            self._check(os.fstat(file.fileno()), stat.S_ISREG)
            login = msgspec.json.decode(file.read(_LONGEST), type=Login)
        return login if self._clock.now() + MARGIN < login.until else None

    def _clean(self, folder: int) -> None:
        for name in os.listdir(folder):
            found = None
            with suppress(OSError, msgspec.MsgspecError):
                found = self._usable(folder, name)
            if found is None and name.endswith(_SUFFIX):
                os.unlink(name, dir_fd=folder)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The folder, if it is the user's alone."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            self._check(os.fstat(folder), stat.S_ISDIR)
            yield folder
        finally:
            os.close(folder)

    def _check(self, found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
        if not is_kind(found.st_mode) or found.st_uid != self._user or found.st_mode & _OTHERS:
            raise PermissionError


def _key(options: ConnectionOptions, environ: Mapping[str, str]) -> str | None:
    """A digest of everything that decides who the user is, and where; None without a kubeconfig."""
    contents: list[tuple[str, str]] = []
    for file in options.kubeconfig_files(environ):
        try:
            if file.exists() and not file.is_file():
                return None  # a pipe can be read only once
            if file.exists():
                contents.append((str(file.absolute()), hashlib.sha256(file.read_bytes()).hexdigest()))
        except OSError:
            return None
    if not contents:
        return None
    plugins = sorted(each for each in environ.items() if each[0].startswith(_PLUGINS))
    where = options.context, options.installed, options.url or environ.get(URL)
    return hashlib.sha256(msgspec.json.encode((contents, where, plugins))).hexdigest()
