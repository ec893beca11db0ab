"""The authority of the user, the directory of a recording, and what is kept of addresses."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path

import pytest

from sandrl.errors import InputError, SandrlError
from sandrl.runtime.recording import authority
from sandrl.runtime.recording.attachment import AttachedRecorder, Attachment, attachment
from sandrl.runtime.recording.authority import open_authority
from sandrl.runtime.recording.recorder import RecordingMode
from sandrl.runtime.recording.recording import Recording
from sandrl.runtime.recording.request import Request, without_secrets


def test_all_processes_have_one_authority_whose_key_is_the_users_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = {each.certificate for each in threads.map(lambda _: open_authority(tmp_path), range(4))}
    assert len(found) == 1
    assert b"PRIVATE" not in found.pop()
    keys = [each for each in tmp_path.rglob("*") if each.is_file() and b"PRIVATE" in each.read_bytes()]
    assert [stat.S_IMODE(each.stat().st_mode) for each in keys] == [0o600]


def test_an_authority_that_ends_soon_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authority, "_LIFETIME", timedelta(days=100))
    old = open_authority(tmp_path).certificate
    monkeypatch.undo()
    new = open_authority(tmp_path).certificate
    assert new != old
    assert open_authority(tmp_path).certificate == new


def test_a_damaged_authority_is_named(tmp_path: Path) -> None:
    open_authority(tmp_path)
    (path,) = tmp_path.rglob("*.pem")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match=r"authority\.pem: is not the key and the certificate"):
        open_authority(tmp_path)


@pytest.mark.parametrize(
    ("address", "kept"),
    [
        ("https://ada:hidden@a.test/b?c=d", "https://a.test/b?c=d"),
        ("https://a.test/?token=hidden&page=2", "https://a.test/?token=left-out&page=2"),
        (
            "https://a.test/?X-Goog-Credential=hidden&sig=hidden",
            "https://a.test/?X-Goog-Credential=left-out&sig=left-out",
        ),
        ("https://a.test/?page=2;API_KEY=hidden", "https://a.test/?page=2;API_KEY=left-out"),
        ("/relative?Password=hidden#part", "/relative?Password=left-out#part"),
        ("https://a.test/?design=1&monkey=2&keyboard=3", "https://a.test/?design=1&monkey=2&keyboard=3"),
    ],
)
def test_addresses_are_kept_without_credentials(address: str, kept: str) -> None:
    assert without_secrets(address) == kept


def test_requests_that_differ_in_a_credential_are_one(tmp_path: Path) -> None:
    def request(target: str, *headers: tuple[str, str], server: str = "a.test", method: str = "GET") -> Request:
        return Request(method, "https", server, 443, target, (("host", server), *headers))

    assert request("/?sig=1").key() == request("/?sig=2").key()
    assert request("/", ("authorization", "a")).variant == request("/", ("authorization", "b")).variant
    others = [request("/b"), request("/a", server="b.test"), request("/a", method="POST")]
    assert request("/a").key() not in [each.key() for each in others]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"schema": 2}', "x" * (2 << 20)])
def test_a_directory_that_is_not_a_recording_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "recording.json").write_text(content)
    with pytest.raises(InputError, match=str(tmp_path)):
        Recording(tmp_path)


def test_a_directory_with_other_files_is_not_recorded_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not a recording"):
        Recording(tmp_path)
    with pytest.raises(InputError, match="is not a recording"):
        Recording(tmp_path / "thesis.txt")


@pytest.mark.skipif(os.getuid() == 0, reason="user 0 may write anywhere")
def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be recorded into: Permission denied"):
        Recording(tmp_path / "new").make()


def test_what_a_command_prepares_ends_with_it(tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "HTTPS_PROXY": "http://ada:hidden@proxy.test:3128"}
    with attachment(tmp_path / "recording", RecordingMode.RECORD, tmp_path / "state", variables) as attached:
        assert stat.S_IMODE(Path(attached.file).stat().st_mode) == 0o600
        recorder = AttachedRecorder(attached.file, lambda destination, what: None)
        assert recorder.takes(443)
        assert not recorder.takes(22)
        assert not recorder.is_offline
        assert "hidden" not in repr(attached)
    with pytest.raises(SandrlError, match="is not a prepared recording"):
        AttachedRecorder(attached.file, lambda destination, what: None)
    kept = [each for each in tmp_path.rglob("*") if each.is_file() and b"hidden" in each.read_bytes()]
    assert not kept


def test_what_a_killed_command_has_prepared_ends_with_the_next(tmp_path: Path) -> None:
    def opened() -> AbstractContextManager[Attachment]:
        variables = {"HOME": str(tmp_path)}
        return attachment(tmp_path / "recording", RecordingMode.RECORD, tmp_path / "state", variables)

    text = (
        "import os, sys; from pathlib import Path; from sandrl.runtime.recording.attachment import attachment\n"
        "from sandrl.runtime.recording.recorder import RecordingMode; place = Path(sys.argv[1])\n"
        "with attachment(place / 'recording', RecordingMode.RECORD, place / 'state', {'HOME': str(place)}):\n"
        "    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", text, tmp_path], check=False).returncode == -signal.SIGKILL
    (abandoned,) = (tmp_path / "state/recording").glob("*.json")
    with opened() as one, opened() as other:
        assert {Path(one.file), Path(other.file)} == set((tmp_path / "state/recording").glob("*.json"))
        assert not abandoned.exists()
