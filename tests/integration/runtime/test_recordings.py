"""Programs in sandboxes install packages from the network, and again from the recording alone."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cwsandbox import EgressRule, NetworkOptions, ProcessResult, Session

from sandrl.errors import InputError
from sandrl.runtime.downloads.gathered import PLACE
from sandrl.runtime.images.store import ImageStore
from sandrl.runtime.limits import PRIVATE_HOSTS_ANNOTATION, RECORDING_ANNOTATION
from sandrl.runtime.recording.attachment import attachment
from sandrl.runtime.recording.recorder import RecordingMode
from sandrl.settings import load_settings
from tests.support.programs import require_program
from tests.support.recordings import Answer, Internet, Request
from tests.support.wheels import Index

SHOWN = "/tmp/downloads"
PIP = """
python3 /tmp/downloads/pip.zip/pip install --target /tmp/out gauge
python3 -c 'import sys; sys.path.insert(0, "/tmp/out"); import gauge; print(gauge.unit)'
"""
APT_DIRECTORIES = "-o Dir::State=/tmp/apt/state -o Dir::Cache=/tmp/apt/cache -o Dir::Etc=/tmp/apt/etc"
APT_AS_A_USER = f"""
mkdir -p /tmp/apt/state/lists/partial /tmp/apt/cache/archives/partial /tmp/apt/etc && cd /tmp
echo "deb [trusted=yes] $MIRROR/debian ./" > /tmp/apt/etc/sources.list
touch /tmp/apt/state/status
for step in update 'download greet'; do
  apt-get {APT_DIRECTORIES} -o Dir::State::status=/tmp/apt/state/status -o Debug::NoLocking=1 $step
done
dpkg-deb --fsys-tarfile greet_1_all.deb | tar -xO ./usr/bin/greet
"""
APT = """
rm -rf /etc/apt/sources.list.d/* && echo "deb [trusted=yes] $MIRROR/debian ./" > /etc/apt/sources.list
apt-get update && apt-get install --yes greet && greet
"""


@pytest.fixture
def internet() -> Iterator[Internet]:
    made = Internet()
    yield made
    made.close()


@pytest.fixture
def mirror(internet: Internet, tmp_path: Path) -> str:
    """The address of a server on this machine's loopback with an index of Python and a repository of Debian."""
    dpkg = require_program("dpkg-deb")
    served = tmp_path / "served"
    wheel = Index(served / "files").add("gauge", files={"gauge.py": "unit = 'bar'\n"})
    page = served / "simple" / "gauge" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="../../files/{wheel.name}">{wheel.name}</a>')
    tree = tmp_path / "greet"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr" / "bin").mkdir(parents=True)
    about = "Package: greet\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    (tree / "DEBIAN" / "control").write_text(about)
    program = tree / "usr" / "bin" / "greet"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    debian = served / "debian"
    debian.mkdir()
    package = debian / "greet_1_all.deb"
    subprocess.run([dpkg, "--root-owner-group", "--build", tree, package], check=True, capture_output=True)
    content = package.read_bytes()
    about += f"Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}\n"
    (debian / "Packages").write_text(about)

    def answer(request: Request) -> Answer:
        path = served / request.path.strip("/")
        path = path / "index.html" if path.is_dir() else path
        kind = "text/html" if path.suffix == ".html" else "application/octet-stream"
        return (200, {"Content-Type": kind}, path.read_bytes()) if path.exists() else (404, {}, b"")

    return f"https://127.0.0.1:{internet.add('127.0.0.1', answer).port}"


def in_a_sandbox(
    session: Session,
    mode: RecordingMode,
    directory: Path,
    internet: Internet,
    mirror: str,
    program: str,
    image: str | None = None,
) -> ProcessResult:
    authorities = directory / "authorities.pem"
    internet.authority.cert_pem.write_to_path(str(authorities))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "XDG_CONFIG_DIRS": str(directory),
        "SSL_CERT_FILE": str(authorities),
        "PIP_INDEX_URL": f"{mirror}/simple",
    }
    with attachment(directory / "recording", mode, directory / "state", environment) as attached:
        annotations = {
            PRIVATE_HOSTS_ANNOTATION: " ".join(attached.downloads.reachable),
            RECORDING_ANNOTATION: attached.file,
        }
        network = NetworkOptions(egress=[EgressRule(any=True)])
        sandbox = session.sandbox(network=network, annotations=annotations, container_image=image)
        variables = {name: text.replace(PLACE, SHOWN) for name, text in attached.downloads.environment.items()}
        sandbox.exec(["mkdir", "-p", SHOWN]).result()
        for path, content in attached.downloads.files.items():
            sandbox.write_file(path.replace(PLACE, SHOWN), content.replace(PLACE.encode(), SHOWN.encode())).result()
        sandbox.write_file(f"{SHOWN}/pip.zip", zipped_pip(directory)).result()
        words = [f"{name}={text}" for name, text in (variables | {"MIRROR": mirror}).items()]
        done = sandbox.exec(["env", *words, "sh", "-ec", program], timeout_seconds=120).result()
        sandbox.stop().result()
    return done


def zipped_pip(directory: Path) -> bytes:
    """The pip of these tests; an image may have none."""
    place = importlib.util.find_spec("pip")
    assert place is not None
    assert place.origin is not None
    root = Path(place.origin).parent.parent
    return Path(shutil.make_archive(str(directory / "pip"), "zip", root, "pip")).read_bytes()


@pytest.mark.parametrize(("program", "shown"), [(PIP, "bar"), (APT_AS_A_USER, "echo hello")], ids=["pip", "apt"])
def test_what_was_recorded_is_installed_again_without_the_server(
    session: Session, internet: Internet, mirror: str, tmp_path: Path, program: str, shown: str
) -> None:
    require_program("apt-get")
    recorded = in_a_sandbox(session, RecordingMode.RECORD, tmp_path, internet, mirror, program)
    assert recorded.returncode == 0, recorded.stderr
    assert recorded.stdout.splitlines()[-1] == shown
    internet.close()
    replayed = in_a_sandbox(session, RecordingMode.REPLAY, tmp_path, internet, mirror, program)
    assert replayed.returncode == 0, replayed.stderr
    assert replayed.stdout.splitlines()[-1] == shown


def test_nothing_leaves_while_a_recording_is_replayed(
    session: Session, internet: Internet, mirror: str, tmp_path: Path
) -> None:
    in_a_sandbox(session, RecordingMode.RECORD, tmp_path, internet, mirror, "curl --silent $MIRROR/simple/gauge/")
    site = internet.add("127.0.0.1", lambda request: (200, {}, b"reached"), port=81)
    program = f"""
    curl --silent $MIRROR/simple/gauge/ | grep -q gauge
    for address in $MIRROR/other https://unknown.invalid/ http://unknown.invalid/; do
      curl --silent --output /dev/null --write-out '%{{http_code}} ' $address
    done
    curl --silent http://unknown.invalid:{site.port}/ || echo refused
    """
    done = in_a_sandbox(session, RecordingMode.REPLAY, tmp_path, internet, mirror, program)
    assert done.stdout.split() == ["504", "504", "504", "refused"], done.stderr
    assert not site.asked


def test_a_recording_that_is_missing_is_not_replayed(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="has no recording to replay"),
        attachment(tmp_path / "none", RecordingMode.REPLAY, tmp_path / "state", {}),
    ):
        pass


def test_a_sandbox_whose_recording_cannot_be_used_has_no_network(
    session: Session, internet: Internet, mirror: str, tmp_path: Path
) -> None:
    annotations = {
        PRIVATE_HOSTS_ANNOTATION: mirror.removeprefix("https://"),
        RECORDING_ANNOTATION: str(tmp_path / "missing.json"),
    }
    sandbox = session.sandbox(network=NetworkOptions(egress=[EgressRule(any=True)]), annotations=annotations)
    done = sandbox.exec(["curl", "--silent", "--insecure", "--max-time", "10", f"{mirror}/simple/gauge/"]).result()
    assert done.returncode != 0
    assert done.stdout == ""


def fetched(
    machine: list[str], directory: Path, recording: RecordingMode, *addresses: str, **request: Any
) -> dict[str, Any]:
    options = {"mode": recording, "directory": str(directory), "addresses": addresses, "request": request}
    command = [*machine, sys.executable, "-m", "tests.support.recorded_sandbox", json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("kind", ["root", "user"])
def test_a_name_is_replayed_where_it_does_not_exist(kind: str, tmp_path: Path) -> None:
    require_program("ip")
    if kind == "root" and os.getuid() != 0:
        pytest.skip("needs root")
    machine = [sys.executable, "-m", "tests.support.internet", kind]
    asked = (
        "http://allowed.example/",
        "http://allowed.example/redirect?to=http://other.example/",
        "http://other.example/",
    )
    allowed = {"mode": "allowlist", "allowed": ["allowed.example:80"]}
    directory = tmp_path / "recording"
    recorded = fetched(machine, directory, RecordingMode.RECORD, *asked, **allowed)
    first, redirect, other = recorded["given"]
    assert first.endswith(" 0")
    assert "80" in first
    assert redirect == " 0"
    # curl: the name does not exist.
    assert other == " 6"
    assert [each["refused"] for each in recorded["connections"] if each["host"] == "other.example"] != [""]
    replayed = fetched([], directory, RecordingMode.REPLAY, *asked, "http://allowed.example/other", **allowed)
    assert replayed["given"][:3] == recorded["given"]
    missed = "GET http://allowed.example/other"
    assert missed in replayed["given"][3]
    assert [each["error"].split(":")[0:2] for each in replayed["connections"] if each["error"]] == [missed.split(":")]


def test_a_private_address_is_not_recorded(tmp_path: Path) -> None:
    require_program("ip")
    machine = [sys.executable, "-m", "tests.support.internet", "user"]
    asked = ("http://private.example/", "http://metadata.example/", "http://10.7.0.5/", "http://mirror.example/")
    request = {"mode": "public", "private": ["mirror.example:80"]}
    found = fetched(machine, tmp_path / "recording", RecordingMode.RECORD, *asked, **request)
    *refused, mirror = found["given"]
    assert "private.example is not reached: 10.7.0.5 is an address of" in refused[0]
    assert len([each for each in refused if "is not reached" in each]) == 3
    assert mirror == '["10.7.0.5", 80] 0'
    assert len([each for each in found["connections"] if each["refused"]]) == 3


@pytest.mark.slow
def test_apt_installs_into_a_debian_image_from_a_recording(
    session: Session, internet: Internet, mirror: str, tmp_path: Path
) -> None:
    archive = tmp_path / "debian.tar"
    made = subprocess.run(
        [require_program("mmdebstrap"), "--variant=minbase", "--include=curl", "--quiet", "bookworm", archive],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"mmdebstrap made no image: {made.stderr[-200:]}")
    image = ImageStore(load_settings().cache_dir / "images").add_file(f"rootfs:{archive}").digest
    for mode in (RecordingMode.RECORD, RecordingMode.REPLAY):
        done = in_a_sandbox(session, mode, tmp_path, internet, mirror, APT, image)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "hello"
        internet.close()
