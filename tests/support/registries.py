"""Registries of images on loopback: Debian's own, filled by skopeo, and one that answers as a test says."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sandrl.events import Event
from sandrl.runtime.images.references import parse_reference
from sandrl.runtime.images.registry import RegistrySource
from sandrl.runtime.images.source import architecture
from tests.support.programs import require_program

USER, PASSWORD = "ada", "secret of the test"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# bcrypt, the one kind of hash that the registry reads.
_HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuu95LyQGGdoCER4eJcdZ.L7qa./QGnnUu\n"


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class Image:
    """An image in memory: its manifest, and its blobs by digest, the configuration first."""

    manifest: bytes
    blobs: dict[str, bytes]

    @property
    def digest(self) -> str:
        return digest_of(self.manifest)

    @property
    def layers(self) -> list[str]:
        return [*self.blobs][1:]

    def write_layout(self, directory: Path, tag: str) -> Path:
        """Writes it as a layout of OCI."""
        blobs = directory / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        for content in (self.manifest, *self.blobs.values()):
            (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
        described = descriptor(self.manifest, MANIFEST)
        named = {**described, "annotations": {"org.opencontainers.image.ref.name": tag}}
        (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
        (directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        return directory


def descriptor(content: bytes, media_type: str) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(content), "size": len(content)}


def make_image(*layers: Mapping[str, bytes] | Path) -> Image:
    """Makes an image for this machine; each layer has files by their names, or all that is in a directory."""
    tars = [_tar(files) for files in layers]
    packed = [gzip.compress(each, mtime=0) for each in tars]
    rootfs = {"type": "layers", "diff_ids": [digest_of(each) for each in tars]}
    configuration = {"architecture": architecture(), "os": "linux", "config": {"Env": ["A=1"]}, "rootfs": rootfs}
    config = json.dumps(configuration).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": descriptor(config, "application/vnd.oci.image.config.v1+json"),
        "layers": [descriptor(each, "application/vnd.oci.image.layer.v1.tar+gzip") for each in packed],
    }
    blobs = {digest_of(each): each for each in (config, *packed)}
    return Image(json.dumps(manifest).encode(), blobs)


def _tar(files: Mapping[str, bytes] | Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        if isinstance(files, Path):
            archive.add(files, ".")
            files = {}
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def make_index(manifests: Mapping[str, bytes]) -> bytes:
    """Makes an index of manifests by platform: `OS/ARCHITECTURE[/VARIANT]`."""
    named = []
    for platform, manifest in manifests.items():
        keys = dict(zip(("os", "architecture", "variant"), platform.split("/"), strict=False))
        named.append({**descriptor(manifest, MANIFEST), "platform": keys})
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": named}).encode()


def write_login(directory: Path, *hosts: str, **fields: str) -> dict[str, str]:
    """Writes Docker's file with a credential for some hosts; returns the environment that names it."""
    entry = fields or {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"auths": dict.fromkeys(hosts, entry)}))
    return {"DOCKER_CONFIG": str(directory)}


@contextmanager
def debian_registry(directory: Path, *, needs_login: bool = False, settings: str = "") -> Iterator[str]:
    """Runs Debian's registry on loopback; gives its `HOST:PORT`."""
    program = require_program("docker-registry")
    directory.mkdir()
    if needs_login:
        (directory / "htpasswd").write_text(_HTPASSWD)
        settings = f"auth: {{htpasswd: {{realm: test, path: {directory}/htpasswd}}}}"
    (directory / "config.yml").write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {directory}}}}}\n"
        f"http: {{addr: 127.0.0.1:0}}\n{settings}\n"
    )
    process = subprocess.Popen(
        [program, "serve", str(directory / "config.yml")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    try:
        found = next(filter(None, (re.search(r"listening on (127\.0\.0\.1:\d+)", line) for line in process.stderr)))
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        yield found[1]
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stderr.close()


def push(image: Image, directory: Path, host: str, name: str, *options: str) -> None:
    """Copies an image into a registry with skopeo."""
    layout = image.write_layout(directory, "image")
    copy = [require_program("skopeo"), "--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false", *options]
    environment = {**os.environ, "TMPDIR": str(directory)}
    subprocess.run([*copy, f"oci:{layout}:image", f"docker://{host}/{name}"], check=True, env=environment)


@dataclass
class Asked:
    """A request to the scripted registry; the handler is for answers that are not whole."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    handler: BaseHTTPRequestHandler

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization", "")


@dataclass
class Reply:
    """An answer; a length that is not that of the body is sent as it is."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


Script = Callable[[Asked], Reply | None]


@dataclass
class ScriptedRegistry:
    """Serves images by their tags and digests, unless the script has another answer."""

    images: dict[str, bytes]
    blobs: dict[str, bytes]
    script: Script
    server: ThreadingHTTPServer
    asked: list[Asked] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    @property
    def address(self) -> str:
        return f"http://{self.host}"

    def add(self, image: Image, tag: str = "latest") -> None:
        self.images |= {tag: image.manifest, image.digest: image.manifest}
        self.blobs |= image.blobs

    def usual(self, asked: Asked) -> Reply:
        """The answer of a registry that works."""
        kind, _, wanted = asked.path.rpartition("?")[0 if "?" in asked.path else 2].rpartition("/")
        if kind.endswith("/tags"):
            return Reply(
                body=json.dumps({"name": "image", "tags": [each for each in self.images if ":" not in each]}).encode()
            )
        content = (self.images if kind.endswith("/manifests") else self.blobs).get(wanted)
        if content is None:
            return Reply(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}')
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("Range", ""))
        if found is None:
            return Reply(body=content)
        first, last = int(found[1]), int(found[2])
        headers = {"Content-Range": f"bytes {first}-{last}/{len(content)}"}
        return Reply(206, content[first : last + 1], headers)

    def count(self, part: str) -> int:
        """How many requests had a path with this part."""
        return sum(part in each.path for each in self.asked)


@contextmanager
def scripted_registry(
    script: Script = lambda _: None, *, wrap: Callable[[Any], Any] | None = None
) -> Iterator[ScriptedRegistry]:
    """Runs a registry that answers as a test says; `wrap` makes another socket of its own, for TLS."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked = Asked(self.command, self.path, dict(self.headers), body, self)
            registry.asked.append(asked)
            reply = registry.script(asked) or registry.usual(asked)
            if reply.status:
                self.send_response(reply.status)
                for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply.body)
            self.close_connection |= reply.headers.get("Content-Length", str(len(reply.body))) != str(len(reply.body))

        do_POST = do_GET  # noqa: N815 - the name of the library

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            # A client that goes away is part of the tests.
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if wrap is not None:
        server.socket = wrap(server.socket)
    registry = ScriptedRegistry({}, {}, script, server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class TokenServer:
    """Signs tokens for Debian's registry, for the user of the tests only; each is valid for a minute."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        authority = trustme.CA()
        certificate = authority.issue_cert("tokens.test")
        self.bundle = directory / "authority.pem"
        authority.cert_pem.write_to_path(self.bundle)
        self._key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
        leaf = x509.load_pem_x509_certificate(certificate.cert_chain_pems[0].bytes())
        self._chain = [base64.b64encode(leaf.public_bytes(serialization.Encoding.DER)).decode()]

    def settings(self, realm: str) -> str:
        """What the registry's configuration says of it."""
        return f"auth: {{token: {{realm: {realm}, service: reg, issuer: test, rootcertbundle: {self.bundle}}}}}"

    def answer(self, asked: Asked) -> Reply:
        """Gives a token for what is asked for, to its user."""
        user = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if asked.authorization != f"Basic {user}":
            return Reply(401)
        query = parse_qs(urlsplit(asked.path).query)
        access = []
        for scope in query.get("scope", []):
            kind, name, actions = scope.split(":")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        now = int(time.time())
        times = {"exp": now + 60, "nbf": now - 5, "iat": now}
        claims = {"iss": "test", "sub": USER, "aud": "reg", "jti": str(now), "access": access, **times}
        return Reply(body=json.dumps({"token": self._signed(claims)}).encode())

    def _signed(self, claims: Mapping[str, Any]) -> str:
        head = {"typ": "JWT", "alg": "ES256", "x5c": self._chain}
        text = b".".join(_base64url(json.dumps(part).encode()) for part in (head, claims))
        assert isinstance(self._key, ec.EllipticCurvePrivateKey)
        numbers = decode_dss_signature(self._key.sign(text, ec.ECDSA(hashes.SHA256())))
        return (text + b"." + _base64url(b"".join(number.to_bytes(32, "big") for number in numbers))).decode()


def _base64url(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def source(
    registry: ScriptedRegistry | str,
    name: str = "image",
    *,
    environment: Mapping[str, str] = {},
    told: list[Event] | None = None,
    mirrors: tuple[str, ...] = (),
    platform: str = "",
) -> RegistrySource:
    host = registry if isinstance(registry, str) else registry.host
    emit = (lambda event: None) if told is None else told.append
    reference = parse_reference(f"{host}/{name}")
    return RegistrySource(reference, environment=environment, emit=emit, mirrors=mirrors, platform=platform)


def read(opened: RegistrySource, image: Image) -> None:
    """Reads a whole image, and checks that it is this one."""
    with opened:
        assert opened.manifest() == image.manifest
        for digest, content in image.blobs.items():
            assert b"".join(opened.blob(digest, len(content))) == content
