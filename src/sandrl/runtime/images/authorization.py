"""Authorization by a registry: basic, or with a token of the server that it names."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

import httpx

from sandrl.errors import ServiceError
from sandrl.runtime.images.credentials import Credential, Found
from sandrl.runtime.images.failures import Failure, content_of, of_status, translated

_MOST_BYTES = 1 << 20
_MOST_HEADER = 8192
_CHALLENGE = re.compile(r"(?:^|,)\s*(Bearer|Basic)\b", re.IGNORECASE)
_PARAMETER = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')
_CLIENT = "sandrl"


class Authorization:
    """The header `Authorization` for one repository of a registry; several threads may use it.

    Args:
        find: Looks for the user's credential; called when the registry wants one.
    """

    def __init__(self, client: httpx.Client, registry: str, repository: str, find: Callable[[], Found]) -> None:
        self._client = client
        self._repository = repository
        self._find: Callable[[], Found] | None = find
        self._lock = threading.Lock()
        self.found = Found(registry)
        self.header = ""

    def renew(self, refused: str, response: httpx.Response) -> bool:
        """Makes another header after an answer 401 to a request with the header `refused`; False if there is none.

        Raises:
            Failure: If the server of tokens refuses, or does not answer.
        """
        with self._lock:
            if self.header != refused:
                return True
            if self._find is not None:
                self.found, self._find = self._find(), None
            challenges = _challenges(response.headers.get("WWW-Authenticate", ""))
            credential = self.found.credential
            if "bearer" in challenges:
                self.header = f"Bearer {self._token(challenges['bearer'], credential, response.url)}"
            elif "basic" in challenges and credential is not None and credential.username:
                self.header = credential.basic
            return self.header != refused

    def _token(self, challenge: Mapping[str, str], credential: Credential | None, registry: httpx.URL) -> str:
        with translated(registry.netloc.decode("ascii")):
            realm = registry.join(challenge.get("realm", ""))
        host = realm.netloc.decode("ascii")
        is_safe = realm.scheme == "https" or (realm.scheme == "http" and registry.scheme == "http")
        if not challenge.get("realm") or not is_safe:
            message = f"{registry.host} requires a token, and names no server of tokens with TLS"
            raise Failure(ServiceError(message, hint="report it to who runs the registry"), is_final=True)
        scope = challenge.get("scope") or f"repository:{self._repository}:pull"
        fields = {"service": challenge.get("service", ""), "scope": scope}
        with translated(host):
            response = self._client.send(_request(self._client, realm, fields, credential), stream=True)
        try:
            if response.status_code != 200:
                raise of_status(response, f"a token for {self._repository}", self.found)
            return _token_of(content_of(response, _MOST_BYTES), host)
        finally:
            response.close()


def _request(
    client: httpx.Client, realm: httpx.URL, fields: dict[str, str], credential: Credential | None
) -> httpx.Request:
    if credential is not None and credential.identity_token:
        grant = {"grant_type": "refresh_token", "client_id": _CLIENT, "refresh_token": credential.identity_token}
        return client.build_request("POST", realm, data={**grant, **fields})
    account = {} if credential is None else {"account": credential.username}
    headers = {} if credential is None else {"Authorization": credential.basic}
    return client.build_request("GET", realm.copy_merge_params({**account, **fields}), headers=headers)


def _challenges(header: str) -> dict[str, dict[str, str]]:
    # Several challenges may be in one header: the parameters of each go on to the next.
    _, *parts = _CHALLENGE.split(header[:_MOST_HEADER])
    return {
        scheme.lower(): {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(parameters)}
        for scheme, parameters in zip(parts[::2], parts[1::2], strict=True)
    }


def _token_of(content: bytes, host: str) -> str:
    document: Any = None
    try:
        document = json.loads(content)
        token = document.get("token") or document.get("access_token")
    except (ValueError, AttributeError, RecursionError):
        token = None
    if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
        raise Failure(ServiceError(f"{host} gives no token", hint="report it to who runs the registry"), is_final=True)
    return token
