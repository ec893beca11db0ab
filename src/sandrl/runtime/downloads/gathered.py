"""The variables and files of a sandbox, while the user's own are read."""

from __future__ import annotations

import netrc
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from sandrl.files import read_regular

PLACE = "/run/sandrl/downloads"
"""The directory of a sandbox that has all files."""

CERTIFICATES = f"{PLACE}/certificates.pem"
"""The file of a sandbox with all certificates, if it has one."""

MOST_FILE_BYTES = 4 << 20
_NO_ADDRESS = "the address of a package index or of a proxy is not valid: it is not used"
_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True)
class Gathered:
    """What is found is added here.

    Attributes:
        source: The user's environment.
        environment: Variables of the sandbox.
        files: Contents by path in the sandbox.
        reachable: `HOST:PORT` of servers that may have private addresses, in order.
        unverified: Names of servers whose certificates the user does not want checked.
        warnings: What cannot be used, and why, without secrets.
    """

    source: Mapping[str, str] = field(repr=False)
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    reachable: dict[str, None] = field(default_factory=dict)
    unverified: dict[str, None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def home(self, *parts: str) -> list[Path]:
        """A path below the user's home directory; none without a home."""
        home = self.source.get("HOME", "")
        return [Path(home, *parts)] if os.path.isabs(home) else []

    def configured(self, *parts: str) -> list[Path]:
        """The paths that a file of the desktop convention may have, that of the user last."""
        shared = [each for each in self.source.get("XDG_CONFIG_DIRS", "").split(":") if os.path.isabs(each)]
        own = self.source.get("XDG_CONFIG_HOME", "")
        users = [Path(own, *parts)] if os.path.isabs(own) else self.home(".config", *parts)
        return [*(Path(each, *parts) for each in reversed(shared or ["/etc/xdg"])), *users]

    def content(self, path: Path, *, is_needed: bool = False) -> bytes | None:
        """The content of a file, if there is one that can be read."""
        try:
            return read_regular(path, MOST_FILE_BYTES)
        except OSError as error:
            if is_needed or not isinstance(error, FileNotFoundError | NotADirectoryError):
                self.warnings.append(f"{path} cannot be read: {error.strerror}")
            return None

    def add_file(self, path: Path, name: str) -> str | None:
        """Copies a file of the user; returns its path in the sandbox."""
        content = self.content(path, is_needed=True)
        if content is None:
            return None
        place = f"{PLACE}/{name}"
        self.files[place] = content
        return place

    def location(self, text: str) -> str | None:
        """Makes a place with packages usable, as users write it: an address; a directory is left out."""
        try:
            parts = urlsplit(text)
        except ValueError:
            self.warnings.append(_NO_ADDRESS)
            return None
        if parts.scheme in _PORTS:
            return self.address(text)
        if parts.scheme not in ("", "file"):
            return text
        self.warnings.append(f"{unquote(parts.path)} has packages on this machine, which sandboxes do not see")
        return None

    def address(self, text: str) -> str:
        """Makes an address reachable; returns it with the credential that the user's netrc has for its host."""
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, port = parts.hostname or "", parts.port
        except ValueError:
            self.warnings.append(_NO_ADDRESS)
            return text
        if not host:
            return text
        shown = f"[{host}]" if ":" in host else host
        self.reachable[f"{shown}:{port or _PORTS.get(parts.scheme, 80)}"] = None
        if "@" in parts.netloc or parts.scheme not in _PORTS:
            return text
        credential = self._credential(host)
        return text if credential is None else urlunsplit(parts._replace(netloc=f"{credential}@{parts.netloc}"))

    def _credential(self, host: str) -> str | None:
        named = self.source.get("NETRC", "")
        for path in [Path(named)] if named else self.home(".netrc"):
            try:
                found = netrc.netrc(path).hosts.get(host)
            except (OSError, netrc.NetrcParseError):
                continue
            if found is not None:
                return f"{quote(found[0], '')}:{quote(found[2], '')}"
        return None


def words(value: object) -> list[str]:
    """The words of a value, which may be a list already."""
    if isinstance(value, str):
        return value.split()
    return [str(each) for each in value] if isinstance(value, Iterable) else []
