"""The API of a container engine, with errors of sandrl."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sandrl.errors import InfrastructureError, UsageError
from sandrl.extras import require

ID_LABEL, TAG_LABEL, IMAGE_LABEL = "sandrl.id", "sandrl.tag.", "sandrl.image"
LIFETIME_LABEL, MEMORY_LABEL = "sandrl.lifetime", "sandrl.memory"

_TIMEOUT_SECONDS = 60.0


@dataclass(slots=True)
class Engine:
    """One engine at an address; a process that was forked opens connections of its own."""

    address: str
    _clients: dict[int, Any] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def api(self) -> Any:
        """The client of this process."""
        docker = require("docker", extra="docker")
        with self._lock, self.calling("connect"):
            # A connection that two processes share mixes their answers.
            if os.getpid() not in self._clients:
                self._clients[os.getpid()] = docker.APIClient(base_url=self.address, timeout=_TIMEOUT_SECONDS)
            return self._clients[os.getpid()]

    @contextmanager
    def calling(self, what: str) -> Iterator[None]:
        """Translates the errors of calls that do something.

        Raises:
            InfrastructureError: If the engine does not answer, or fails.
            UsageError: If it refuses the request.
        """
        docker = require("docker", extra="docker")
        requests = require("requests", extra="docker")
        try:
            yield
        except docker.errors.APIError as error:
            text = f"{self.address}: cannot {what}: {error.explanation or error}"
            if error.is_client_error() and error.status_code not in (404, 409):
                raise UsageError(text) from error
            raise InfrastructureError(text) from error
        except (docker.errors.DockerException, requests.RequestException, OSError) as error:
            failure = InfrastructureError(f"{self.address}: the container engine does not answer: {error}")
            failure.lost_runtime = failure.never_reached = isinstance(
                error, requests.ConnectionError | docker.errors.DockerException
            ) and not isinstance(error, requests.ReadTimeout)
            raise failure from error

    def containers(self, *labels: str) -> list[dict[str, Any]]:
        """The containers that sandrl made and that have all these labels, with those that are being removed."""
        with self.calling("list containers"):
            found: list[dict[str, Any]] = self.api.containers(all=True, filters={"label": [ID_LABEL, *labels]})
            return found

    def remove(self, name: str) -> bool:
        """Kills and removes a container; whether there was one."""
        errors = require("docker", extra="docker").errors
        with self.calling("remove a container"):
            try:
                self.api.remove_container(name, force=True, v=True)
            except errors.NotFound:
                return False
            except errors.APIError as error:
                if error.status_code != 409:  # its removal is already in progress
                    raise
        return True
