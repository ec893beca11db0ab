"""Checks the addresses of services, and removes passwords from them.

Addresses are written into run directories, registries and messages, and every user of the machine can read them in the
list of processes. So an address of a user must not contain a password, and no message repeats one.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

from sandrl.errors import UsageError

VLLM_BASE_URL = "http://localhost:8000/v1"
"""Where vLLM serves a model unless another address is given."""

MODEL_KEY_HINT = "set OPENAI_API_KEY to a key of that endpoint"

_USER = re.compile(r"(?<=://)[^/\s]*@")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def check_address(address: str, name: str, *, hint: str | None = None) -> None:
    """Makes sure that a text is the address of a service; errors call it by the name of its field or variable.

    Raises:
        UsageError: If it is none.
    """
    try:
        parts = urlsplit(address)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(
            f"{name} is not an address: it must begin with https:// or http://, and name a host",
            hint=hint,
            fields=(name,),
        )


def check_model_address(address: str, name: str = "base_url") -> None:
    """Makes sure that the field of a model is the address of a service, without a secret.

    Raises:
        UsageError: If the text is no address, or a user or password is in it.
    """
    check_address(address, name, hint=f"for example {VLLM_BASE_URL}")
    refuse_password(address, name, hint=MODEL_KEY_HINT)


def refuse_password(address: str, name: str, *, hint: str | None = None) -> None:
    """Makes sure that nothing secret is in an address, which would be kept; errors call it by the name of its field.

    Raises:
        UsageError: If a user or password is in front of its host.
    """
    if "@" in urlsplit(address).netloc:
        message = f"{name} contains a user or password, which would be saved with the run"
        raise UsageError(message, hint=hint, fields=(name,))


def without_credentials(address: str) -> str:
    """An address without the user and password that one may have in front of its host, and without its query."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def without_users(text: str) -> str:
    """A text without the users and passwords of the addresses in it."""
    return _USER.sub("", text)


def is_of_this_machine(address: str) -> bool:
    """Whether an address leads to the machine it is used on, where no proxy leads to."""
    return urlsplit(address).hostname in _LOOPBACK
