"""The variables and files of a sandbox, while the user's own are read."""

from __future__ import annotations

import netrc
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from sandrl.files import read_regular

PLACE = "/run/sandrl/downloads"
"""The directory of a sandbox that has all files."""

CERTIFICATES = f"{PLACE}/certificates.pem"
"""The file of a sandbox with all certificates, if it has one."""

MOST_FILE_BYTES = 4 << 20
_MOST_PAGES, _MOST_PAGE_BYTES = 2000, 1 << 20
_LINK = re.compile(rb"""(?i)href\s*=\s*["']([^"'#?]+)""")
_NO_ADDRESS = "the address of a package index or of a proxy is not valid: it is not used"
_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True)
class Gathered:
    """What is found is added here.

    Attributes:
        source: The user's environment.
        environment: Variables of the sandbox.
        files: Contents by path in the sandbox.
        directories: Directories of this machine by path in the sandbox.
        reachable: `HOST:PORT` of servers that may have private addresses, in order.
        unverified: Names of servers whose certificates the user does not want checked.
        warnings: What cannot be used, and why, without secrets.
    """

    source: Mapping[str, str] = field(repr=False)
    environment: dict[str, str] = field(default_factory=dict, repr=False)
    files: dict[str, bytes] = field(default_factory=dict, repr=False)
    directories: dict[str, Path] = field(default_factory=dict)
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

    def location(self, text: str, *, is_index: bool = False) -> str | None:
        """Makes a place with packages usable: an address, a directory, or a file; returns it as the sandbox has it.

        Args:
            text: As users write it.
            is_index: Whether it is an index by name, whose pages may lead to files elsewhere.
        """
        try:
            parts = urlsplit(text)
        except ValueError:
            self.warnings.append(_NO_ADDRESS)
            return None
        if parts.scheme in _PORTS:
            return self.address(text)
        if parts.scheme not in ("", "file"):
            return text
        path = Path(unquote(parts.path)) if parts.scheme else Path(text)
        if not path.is_absolute() or not path.is_dir():
            self.warnings.append(f"{path} is not a directory with an absolute path: it is left out")
            return None
        path = path.resolve()
        for each in (path, *(_linked(path) if is_index else ())):
            self.directories[f"{PLACE}/root{each}"] = each
        return f"file://{quote(f'{PLACE}/root{path}')}"

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


def _linked(index: Path) -> list[Path]:
    # Where the pages of an index lead to: what they have in common is shown, and nothing above.
    found: set[str] = set()
    with os.scandir(index) as projects:
        for project in islice(projects, _MOST_PAGES):
            page = Path(project.path, "index.html")
            try:
                content = read_regular(page, _MOST_PAGE_BYTES)
            except OSError:
                continue
            for link in _LINK.findall(content):
                target = urlsplit(urljoin(page.as_uri(), link.decode("utf-8", "replace")))
                if target.scheme == "file":
                    found.add(os.path.dirname(os.path.normpath(unquote(target.path))))
    outside = [each for each in found if not Path(each).is_relative_to(index)]
    common = Path(os.path.commonpath(outside)) if outside else index
    return [common] if common.is_dir() and len(common.parts) > 1 and not index.is_relative_to(common) else []
