"""The token of a service: its source, the place where users find it, and its comparison.

If the user sets no token, one is created for this run of the service, in a file that only its user can read, named
after the address. So a client of the same user on the same machine finds it by itself; other users need to receive it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sandrl.errors import UsageError
from sandrl.files import kept_secret
from sandrl.remote.client import token_path
from sandrl.settings import Settings, private_directory

VARIABLE = "SANDRL_SERVICE_TOKEN"
_LEAST_CHARACTERS = 16
_BYTES = 24


@dataclass(frozen=True, slots=True)
class Token:
    """What authorises requests.

    Attributes:
        place: Where its users find it: a file, or the variable it came from.
    """

    secret: str = field(repr=False)
    place: str

    def is_like(self, given: str) -> bool:
        """Whether a token that was given is this one, in a time that tells nothing about it."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.secret.encode("utf-8", "replace"))


@contextmanager
def token_for(settings: Settings, port: int) -> Iterator[Token]:
    """The token of a service that listens on a port of this machine: the user's, or one that is made for it.

    Raises:
        UsageError: If the user's is too short to keep anybody out, or cannot stand in a header.
    """
    if settings.service_token is not None:
        secret = settings.service_token.strip()
        if len(secret) < _LEAST_CHARACTERS or not secret.isascii() or not _fits_a_path(secret):
            message = f"{VARIABLE} must have {_LEAST_CHARACTERS} or more letters, digits and any of . _ ~ -"
            raise UsageError(message, hint="for example the output of: openssl rand -hex 24")
        yield Token(secret, VARIABLE)
        return
    path = token_path(settings.state_dir, port)
    private_directory(settings.state_dir)
    private_directory(path.parent)
    secret = secrets.token_hex(_BYTES)
    with kept_secret(path, secret):
        yield Token(secret, str(path))


def _fits_a_path(secret: str) -> bool:
    return all(letter.isalnum() or letter in "._~-" for letter in secret)
