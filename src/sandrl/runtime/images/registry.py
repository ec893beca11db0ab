"""Images of registries, by version 2 of their HTTP interface (the distribution specification of OCI)."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import httpx

from sandrl.closing import Closing
from sandrl.errors import InputError, ServiceError, UnknownImageError
from sandrl.events import Emit, PullDelayed, Warned, ignore
from sandrl.runtime.images.failures import Failure, Patience, content_of, translated
from sandrl.runtime.images.references import DIGEST, Reference, parse_reference
from sandrl.runtime.images.source import MOST_MANIFEST_BYTES, Configuration, Manifest, read_document, resolve
from sandrl.runtime.images.store import ImageStore, StoredImage
from sandrl.runtime.images.transport import Endpoint, Transport, endpoints_of, http_client
from sandrl.settings import Settings
from sandrl.suggestions import near

_BLOBS_AT_ONCE = 4
_MOST_TAGS = 1000
_MOST_TAG_BYTES = 1 << 20
_SHOWN_TAGS = 5
_MANIFESTS = {
    "Accept": ", ".join(
        (
            "application/vnd.oci.image.index.v1+json",
            "application/vnd.docker.distribution.manifest.list.v2+json",
            "application/vnd.oci.image.manifest.v1+json",
            "application/vnd.docker.distribution.manifest.v2+json",
        )
    )
}
_BARE_DIGEST = re.compile(r"(?:sha256:)?[0-9a-f]{64}")
_RANGE = re.compile(r"bytes (\d+)-\d+/(?:\d+|\*)")

_Answer = TypeVar("_Answer")


class RegistrySource(Closing):
    """An image of a registry; several threads may read its blobs. Close it, or use it in a `with` block.

    Args:
        mirrors: `HOST=ADDRESS` each: servers that are asked before the registry HOST.
        insecure: The registries (`HOST[:PORT]`) that may be asked over plain HTTP, in addition to this machine.
        environment: Names the files and helpers with credentials.
        platform: `OS/ARCHITECTURE[/VARIANT]`; that of this machine unless one is named.
        emit: Told of delays, and of mirrors that cannot be used.

    Raises:
        UsageError: If a mirror is not valid.
    """

    def __init__(
        self,
        reference: Reference,
        *,
        mirrors: Iterable[str] = (),
        insecure: Iterable[str] = (),
        environment: Mapping[str, str],
        platform: str = "",
        emit: Emit = ignore,
    ) -> None:
        self._platform = platform
        self._reference = reference
        self._emit = emit
        self._client = http_client()
        self._transport = Transport(self._client)
        self.endpoints = endpoints_of(
            self._client, reference, mirrors=mirrors, insecure=insecure, environment=environment
        )
        self._changing = threading.Lock()
        self._closed = threading.Event()

    def close(self) -> None:
        """Ends all requests, also those that wait for another try."""
        self._closed.set()
        self._client.close()

    def describe(self) -> str:
        """The name of the image."""
        return str(self._reference)

    def manifest(self) -> bytes:
        """The manifest of the image for this machine.

        Raises:
            InputError: If there is no such image, or none for this machine.
            AuthenticationError: If the registry refuses.
            ServiceError: If it cannot be reached, limits requests, or gives something else.
        """
        wanted = self._reference.digest or self._reference.tag
        first, described = self._manifest(wanted), self.describe()
        content = resolve(first, lambda chosen: self._manifest(chosen.digest), described, self._platform)
        if self._platform and content is first:
            self._check_platform(content)
        return content

    def blob(self, digest: str, size: int, offset: int = 0) -> Iterator[bytes]:
        """The content of a blob from a byte on; goes on where a transfer was broken off.

        Raises:
            SandrlError: As `manifest` does.
        """
        tries = _Tries(self)
        while offset < size:
            try:
                for chunk in self._part(tries.endpoint, digest, size, offset):
                    offset += len(chunk)
                    tries.progress(len(chunk))
                    yield chunk
            except Failure as failure:
                tries.failed(failure)

    def _part(self, endpoint: Endpoint, digest: str, size: int, offset: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={offset}-{size - 1}"} if offset else {}
        what = f"a layer of {self.describe()}"
        with self._transport.opened(endpoint, f"blobs/{digest}", headers, what=what) as response:
            left, skipped = size - offset, _skipped(response, offset)
            said = response.headers.get("Content-Length", "")
            if said.isdecimal() and int(said) != left + skipped:
                raise _wrong(response, f"has {said} bytes of a layer, whose manifest says {left + skipped}")
            with translated(response.url.netloc.decode("ascii")):
                # As it arrives: with a size, httpx loses what is less than a chunk when a transfer breaks off.
                for chunk in response.iter_raw():
                    if self._closed.is_set():
                        return
                    piece = chunk[skipped:][:left]
                    skipped -= min(skipped, len(chunk))
                    left -= len(piece)
                    if piece:
                        yield piece
                    if not left:
                        return
            message = f"{endpoint.host} ends {left} bytes before the end of a layer"
            raise Failure(ServiceError(message, hint="try again"))

    def _check_platform(self, content: bytes) -> None:
        # Of an image for one platform, only the configuration says for which.
        described = self.describe()
        named = read_document(Manifest, content, described).config
        plain = b"".join(self.blob(named.digest, min(named.size, MOST_MANIFEST_BYTES)))
        configuration = read_document(Configuration, plain, described)
        offered = f"{configuration.os}/{configuration.architecture}"
        if not f"{self._platform}/".startswith(f"{offered}/"):
            raise InputError(f"has no image for {self._platform}, only for {offered}", path=described)

    def _manifest(self, wanted: str) -> bytes:
        return self._asked(lambda endpoint: self._manifest_at(endpoint, wanted))

    def _manifest_at(self, endpoint: Endpoint, wanted: str) -> bytes:
        try:
            with self._transport.opened(endpoint, f"manifests/{wanted}", _MANIFESTS, what=self.describe()) as response:
                content = content_of(response, MOST_MANIFEST_BYTES)
        except Failure as failure:
            if failure.status == 404 and not endpoint.is_mirror:
                failure.error, failure.is_final = self._missing(endpoint, wanted), True
            raise
        said = wanted if DIGEST.fullmatch(wanted) else response.headers.get("Docker-Content-Digest", "")
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if DIGEST.fullmatch(said) and said != found:
            raise _wrong(response, f"gives another manifest ({found}) than {said}")
        if _is_old(content):
            message = f"{self.describe()} has the manifest of Docker before 1.10 (schema 1), which has no digests"
            raise Failure(InputError(message, hint="push the image again with a newer tool"), is_final=True)
        return content

    def _missing(self, endpoint: Endpoint, wanted: str) -> InputError:
        host, repository = self._reference.host, self._reference.repository
        tags = self._tags(endpoint)
        if tags is None:
            return InputError(f"{host} has no image {repository!r}", hint="check the name and the registry")
        if DIGEST.fullmatch(wanted):
            return InputError(f"{host}: {repository} has no image {wanted}", hint="check the digest, or name a tag")
        shown, of_all = ", ".join(tags[-_SHOWN_TAGS:]), f"{_SHOWN_TAGS} of " if len(tags) > _SHOWN_TAGS else ""
        return InputError(
            f"{host}: {repository} has no tag {wanted!r}{near(wanted, tags)}",
            hint=f"{of_all}its tags: {shown}" if shown else "it has no tags",
        )

    def _tags(self, endpoint: Endpoint) -> list[str] | None:
        try:
            with self._transport.opened(endpoint, f"tags/list?n={_MOST_TAGS}", {}, what="its tags") as response:
                tags = json.loads(content_of(response, _MOST_TAG_BYTES))["tags"]
                return [*map(str, tags or ())]
        except (Failure, ValueError, LookupError, TypeError, RecursionError):
            return None

    def _asked(self, ask: Callable[[Endpoint], _Answer]) -> _Answer:
        tries = _Tries(self)
        while True:
            try:
                return ask(tries.endpoint)
            except Failure as failure:
                tries.failed(failure)

    def give_up(self, mirror: Endpoint, failure: Failure) -> None:
        """Asks a mirror no more, and says why, unless it only lacks what was asked for."""
        with self._changing:
            if failure.status == 404 or mirror not in self.endpoints:
                return
            self.endpoints.remove(mirror)
        self._emit(Warned(f"the mirror {mirror.host} is not used: {failure.error.message}", failure.error.hint))

    def wait(self, seconds: float, failure: Failure) -> None:
        """Waits before another try."""
        self._emit(PullDelayed(self.describe(), failure.error.message, seconds))
        if self._closed.wait(seconds):
            raise failure.error


def pull(
    store: ImageStore,
    name: str,
    settings: Settings,
    *,
    environment: Mapping[str, str],
    platform: str = "",
    emit: Emit = ignore,
) -> StoredImage:
    """Stores the image that a name has in its registry now, also if the store has one of this name.

    For `environment` and `platform` see `RegistrySource`; several threads call `emit`.

    Raises:
        UnknownImageError: If the name is a digest alone, which no registry has.
        InputError: If there is no such image, or none for this machine.
        AuthenticationError: If the registry refuses.
        ServiceError: If the registry cannot be reached, limits requests, or gives something else.
        SandrlError: If the image cannot be stored.
    """
    if _BARE_DIGEST.fullmatch(name):
        raise UnknownImageError(name)
    reference = parse_reference(name)
    source = RegistrySource(
        reference,
        mirrors=settings.registry_mirrors,
        insecure=settings.insecure_registries,
        environment=environment,
        platform=platform,
        emit=emit,
    )
    with source:
        try:
            return store.add(source, str(reference), emit, at_once=_BLOBS_AT_ONCE)
        except ServiceError as error:
            if type(error) is not ServiceError:
                raise
            raise ServiceError(f"{reference}: {error.message}", hint=error.hint) from error


class _Tries:
    # The servers for one question: every mirror once, and the registry itself as often as it makes sense.
    def __init__(self, source: RegistrySource) -> None:
        self._source = source
        self._left = [*source.endpoints]
        self._patience = Patience()

    @property
    def endpoint(self) -> Endpoint:
        return self._left[0]

    def progress(self, size: int) -> None:
        self._patience.progress(size)

    def failed(self, failure: Failure) -> None:
        if self.endpoint.is_mirror:
            self._source.give_up(self._left.pop(0), failure)
        else:
            self._source.wait(self._patience.delay_after(failure), failure)


def _skipped(response: httpx.Response, offset: int) -> int:
    # How much of the answer is there already: all before the offset, from a server that knows no ranges.
    if response.status_code != 206:
        return offset
    first = _RANGE.match(response.headers.get("Content-Range", ""))
    if first is None or int(first[1]) != offset:
        raise _wrong(response, "sends another part of a layer than it was asked for")
    return 0


def _wrong(response: httpx.Response, what: str) -> Failure:
    host = response.url.netloc.decode("ascii")
    hint = "try again; if it stays so, report it to who runs the registry"
    return Failure(ServiceError(f"{host} {what}", hint=hint), is_final=True)


def _is_old(content: bytes) -> bool:
    try:
        return bool(json.loads(content).get("schemaVersion") == 1)
    except (ValueError, AttributeError, RecursionError):
        return False
