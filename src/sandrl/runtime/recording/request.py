"""A request as it is kept and found again: without credentials, and with what decides its answer.

Credentials are left out of the name of a request: in headers, and in the parameters of an address. A redirect is also
kept without them, so a program that follows the kept redirect asks for the address that is kept.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]

DEFAULT_PORTS = {"http": 80, "https": 443}

_LEFT_OUT = "left-out"
# Words in the name of a parameter whose value is a credential, and names that are one.
_SECRET = re.compile(
    r"(?i)token|signature|secret|passw|credential|api[-_]?key|jwt|^(?:sig|key|auth|authorization|pwd)$"
)
_PARAMETER = re.compile(r"(?<=[?&;])([^=&;#]*)=[^&;#]*")
_USER = re.compile(r"(?<=://)[^/@\s]*@")
_SELECTING = ("accept", "accept-encoding", "accept-language", "content-type", "git-protocol")
_CONDITIONS = frozenset({"if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range", "range"})
_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")
_HOP_BY_HOP = frozenset(
    {
        "connection", "expect", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection",
        "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_NEVER_GIVEN = frozenset({"alt-svc"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a server, without its body.

    Attributes:
        scheme: `http` or `https`.
        server: The name or address that the program connected to.
        target: Path and query, as sent.
        headers: Names in lower case, as sent.
        body_digest: SHA-256 of the body in hexadecimal digits; empty without a body.
    """

    method: str
    scheme: str
    server: str
    port: int
    target: str
    headers: Headers
    body_digest: str = ""

    def header(self, name: str) -> str:
        """The value of a header; empty if there is none."""
        return header_of(self.headers, name)

    @property
    def url(self) -> str:
        """The address, without credentials."""
        return without_secrets(f"{self.scheme}://{self._authority}{self.target}")

    @property
    def _authority(self) -> str:
        host = f"[{self.server}]" if ":" in self.server else self.server
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_conditional(self) -> bool:
        """Whether it asks for a part of the answer, or for nothing if that is known: the recorder answers it itself."""
        return self.method == "GET" and any(name in _CONDITIONS for name, _ in self.headers)

    def key(self, method: str = "") -> str:
        """Names the request among those of a recording; `method` in place of its own."""
        return _digest([method or self.method, self.url, self.header("host").lower(), self.body_digest])

    @property
    def selecting(self) -> dict[str, str]:
        """The headers by which servers choose one of several answers; of credentials only that there are some."""
        found = {name: re.sub(r"\s+", "", self.header(name)).lower() for name in _SELECTING if self.header(name)}
        return found | ({"authorization": _LEFT_OUT} if self.header("authorization") else {})

    @property
    def variant(self) -> str:
        """Names it among the requests of one key."""
        return _digest(self.selecting)

    def sent_headers(self) -> Headers:
        """What is sent to the server: a whole answer is asked for, of which the recorder gives parts."""
        left_out = _named_by_connection(self.headers) | (_CONDITIONS if self.method in ("GET", "HEAD") else frozenset())
        host = () if self.header("host") else (("host", self._authority),)
        return (*host, *(each for each in self.headers if each[0] not in left_out))


def header_of(headers: Headers, name: str) -> str:
    """The value of a header, of several joined; empty if there is none."""
    return ", ".join(value for each, value in headers if each == name)


def given_headers(headers: Headers) -> Headers:
    """The headers of an answer that go on to the program."""
    left_out = _named_by_connection(headers) | _NEVER_GIVEN
    return tuple(each for each in headers if each[0] not in left_out)


def kept_headers(headers: Headers) -> Headers:
    """The headers of an answer that are kept."""
    return tuple(
        (name, without_secrets(value) if name in ("location", "content-location", "link") else value)
        for name, value in given_headers(headers)
        if name not in ("set-cookie", "authorization", "cookie")
    )


def without_secrets(address: str) -> str:
    """An address without the credentials in it."""

    def parameter(found: re.Match[str]) -> str:
        return f"{found[1]}={_LEFT_OUT}" if _SECRET.search(found[1]) else found[0]

    return _USER.sub("", _PARAMETER.sub(parameter, address))


def is_unchanged(request: Request, headers: Headers) -> bool:
    """Whether the program has what an answer with these headers would give (RFC 9110, 13.2.2)."""
    tags = request.header("if-none-match")
    if tags:
        tag = header_of(headers, "etag").removeprefix("W/")
        return tags.strip() == "*" or (
            bool(tag) and tag in (each.strip().removeprefix("W/") for each in tags.split(","))
        )
    since, changed = _time(request.header("if-modified-since")), _time(header_of(headers, "last-modified"))
    return since is not None and changed is not None and changed <= since


def part_of(request: Request, headers: Headers, size: int) -> range | None:
    """The bytes that the program asks for: an empty range if there are none; None for all of them.

    Several parts at once are not given: the whole is an allowed answer (RFC 9110, 14.2).
    """
    found = _RANGE.fullmatch(request.header("range").replace(" ", ""))
    condition = request.header("if-range")
    validators = (header_of(headers, "etag"), header_of(headers, "last-modified"))
    if found is None or (condition and condition not in validators):
        return None
    if found[3]:
        return range(max(0, size - int(found[3])), size)
    return range(min(int(found[1]), size), min(int(found[2] or size) + 1, size))


def _named_by_connection(headers: Headers) -> frozenset[str]:
    named = (each.strip().lower() for each in header_of(headers, "connection").split(","))
    return _HOP_BY_HOP | frozenset(named)


def _time(text: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("ascii")).hexdigest()


def varies(variant: dict[str, str], request: Request, vary: str) -> bool:
    """Whether an answer to another request of this key is none to this one, by the header `Vary` of the answer."""
    names: Iterable[str] = (each.strip().lower() for each in vary.split(","))
    wanted = request.selecting
    return any(name == "*" or variant.get(name) != wanted.get(name) for name in names if name in {*_SELECTING, "*"})
