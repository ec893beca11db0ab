"""The programs that builds download with are recorded and replayed: pip, uv, npm, git and apt."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sandrl.runtime.recording.recorder import RecordingMode
from tests.support.programs import require_program
from tests.support.recordings import Answer, Front, Internet, Request, front
from tests.support.wheels import Index

Use = Callable[[Front, Path], str]


def run(front: Front, directory: Path, *words: str, **variables: str) -> str:
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "TMPDIR": str(directory), "NO_PROXY": ""}
    done = subprocess.run(
        words,
        env=environment | {"HTTPS_PROXY": front.address, "SSL_CERT_FILE": str(front.certificates)} | variables,
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, (done.stdout, done.stderr, front.missed)
    return done.stdout


def serve(files: dict[str, bytes]) -> Callable[[Request], Answer]:
    def answer(request: Request) -> Answer:
        content = files.get(request.path)
        kind = "text/html" if request.path.endswith("/") else "application/octet-stream"
        tag = {"ETag": f'"{hashlib.md5(content).hexdigest()}"'} if content is not None else {}
        return (200, {"Content-Type": kind, **tag}, content) if content is not None else (404, {}, b"")

    return answer


def index_of_python(internet: Internet, directory: Path) -> None:
    wheel = Index(directory / "files").add("gauge", files={"gauge.py": "unit = 'bar'\n"})
    link = f'<a href="https://files.test/{wheel.name}">{wheel.name}</a>'
    internet.add("python.test", serve({"/simple/gauge/": link.encode()}))
    internet.add("files.test", serve({f"/{wheel.name}": wheel.read_bytes()}))


def use_pip(front: Front, directory: Path) -> str:
    options = ["--proxy", front.address, "--cert", str(front.certificates), "--index-url", "https://python.test/simple"]
    target = directory / "installed"
    run(front, directory, sys.executable, "-m", "pip", "install", *options, "--target", str(target), "gauge")
    return (target / "gauge.py").read_text()


def use_uv(front: Front, directory: Path) -> str:
    target, uv = directory / "installed", shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    options = ["--python", sys.executable, "--default-index", "https://python.test/simple", "--target", str(target)]
    run(front, directory, uv, "pip", "install", *options, "gauge")
    return (target / "gauge.py").read_text()


def registry_of_npm(internet: Internet, directory: Path) -> None:
    del directory
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in {"package.json": '{"name": "gauge", "version": "1.0.0"}', "index.js": "// bar"}.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    content = buffer.getvalue()
    integrity = f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"
    dist = {"tarball": "https://npm.test/gauge/-/gauge-1.0.0.tgz", "integrity": integrity}
    version = {"name": "gauge", "version": "1.0.0", "dist": dist}
    about = {"name": "gauge", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}

    def answer(request: Request) -> Answer:
        if request.method == "POST":
            assert "gauge" in gzip.decompress(request.body).decode()
            return 200, {"Content-Type": "application/json"}, b"{}"
        files = {"/gauge": json.dumps(about).encode(), "/gauge/-/gauge-1.0.0.tgz": content}
        found = files.get(request.path)
        return (200, {}, found) if found is not None else (404, {}, b"{}")

    internet.add("npm.test", answer)


def use_npm(front: Front, directory: Path) -> str:
    npm = require_program("npm")
    options = ["--registry", "https://npm.test/", "--cafile", str(front.certificates), "--audit"]
    (directory / "package.json").write_text("{}")
    run(front, directory, npm, "install", "--no-fund", "--no-update-notifier", *options, "gauge")
    return (directory / "node_modules" / "gauge" / "index.js").read_text()


def repository_of_git(internet: Internet, directory: Path) -> None:
    git, work = require_program("git"), directory / "work"
    name = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    subprocess.run([git, "init", "--quiet", work], check=True)
    (work / "gauge").write_text("bar")
    subprocess.run([git, "-C", work, "add", "gauge"], check=True)
    subprocess.run([git, "-C", work, *name, "commit", "--quiet", "-m", "gauge"], check=True)

    def answer(request: Request) -> Answer:
        path, _, query = request.path.partition("?")
        environment = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(directory),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(request.body)),
            "HTTP_CONTENT_ENCODING": request.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        }
        done = subprocess.run(
            [git, "http-backend"], input=request.body, env=environment, capture_output=True, check=True
        )
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        return int(fields.pop("Status", "200").split()[0]), fields, body

    internet.add("git.test", answer)


def use_git(front: Front, directory: Path) -> str:
    run(front, directory, "git", "clone", "https://git.test/work", "cloned", GIT_SSL_CAINFO=str(front.certificates))
    return (directory / "cloned" / "gauge").read_text()


def repository_of_debian(internet: Internet, directory: Path) -> None:
    del directory
    content = b"!<arch>\n not a real package"
    digest = hashlib.sha256(content).hexdigest()
    about = "Package: gauge\nVersion: 1\nArchitecture: all\nFilename: ./gauge.deb\n"
    about += f"Size: {len(content)}\nSHA256: {digest}\n"
    internet.add("debian.test", serve({"/debian/./Packages": about.encode(), "/debian/./gauge.deb": content}))


def use_apt(front: Front, directory: Path) -> str:
    apt = require_program("apt-get")
    for name in ("state/lists/partial", "cache/archives/partial", "etc/apt.conf.d"):
        (directory / name).mkdir(parents=True)
    (directory / "status").touch()
    (directory / "etc" / "sources.list").write_text("deb [trusted=yes] https://debian.test/debian ./\n")
    settings = {
        "Dir::State": directory / "state",
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory / "cache",
        "Dir::Etc": directory / "etc",
        "Acquire::https::Proxy": front.address,
        "Acquire::https::CaInfo": front.certificates,
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    # The second time, apt asks for what has changed.
    for command in ("update", "update", "download"):
        run(front, directory, apt, *options, command, *(["gauge"] if command == "download" else []))
    return (directory / "gauge_1_all.deb").read_text()


@pytest.mark.parametrize(
    ("provide", "use", "wanted"),
    [
        (index_of_python, use_pip, "unit = 'bar'\n"),
        (index_of_python, use_uv, "unit = 'bar'\n"),
        (registry_of_npm, use_npm, "// bar"),
        (repository_of_git, use_git, "bar"),
        (repository_of_debian, use_apt, "!<arch>\n not a real package"),
    ],
    ids=["pip", "uv", "npm", "git", "apt"],
)
def test_a_program_gets_from_a_recording_what_it_got_from_servers(
    internet: Internet, tmp_path: Path, provide: Callable[[Internet, Path], None], use: Use, wanted: str
) -> None:
    (tmp_path / "served").mkdir()
    provide(internet, tmp_path / "served")
    for mode in (RecordingMode.RECORD, RecordingMode.REPLAY):
        (tmp_path / mode.value).mkdir()
        with front(tmp_path, internet, mode) as served:
            assert use(served, tmp_path / mode.value) == wanted
            assert not served.missed
        internet.close()
