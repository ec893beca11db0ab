"""Programs that are recorded get what servers answer, and when replayed the same without a server."""

from __future__ import annotations

import hashlib
from email.utils import formatdate
from pathlib import Path

import pytest

from sandrl.runtime.recording.recorder import RecordingMode
from tests.support.programs import require_program
from tests.support.recordings import Answer, Internet, Request, front

pytestmark = pytest.mark.usefixtures("_curl")

BIG = bytes(range(256)) * 20_000


@pytest.fixture
def _curl() -> None:
    require_program("curl")


def echo(request: Request) -> Answer:
    return 200, {"Content-Type": "text/plain"}, f"{request.method} {request.path}".encode() + request.body


def test_what_was_recorded_is_replayed_without_a_server(internet: Internet, tmp_path: Path) -> None:
    site = internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        assert recorded.curl("https://files.test/a?b=1").stdout == b"GET /a?b=1"
        assert recorded.curl("https://files.test/a", "-d", "text").stdout == b"POST /atext"
        assert recorded.curl("https://files.test/a", "-d", "other").stdout == b"POST /aother"
    count = len(site.asked)
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("https://files.test/a?b=1").stdout == b"GET /a?b=1"
        assert replayed.curl("https://files.test/a", "-d", "other").stdout == b"POST /aother"
        assert replayed.curl("https://files.test/a", "-d", "text").stdout == b"POST /atext"
    assert len(site.asked) == count == 3


def test_a_request_that_was_not_recorded_is_named(internet: Internet, tmp_path: Path) -> None:
    site = internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        recorded.curl("https://files.test/a")
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        done = replayed.curl("https://files.test/b?token=hidden", "--write-out", "%{http_code}")
        assert done.stdout.endswith(b"504")
        assert b"GET https://files.test/b?token=left-out is not in the recording" in done.stdout
        other = replayed.curl("https://other.test/", "--write-out", "%{http_code}")
        assert other.stdout.endswith(b"504")
        assert [each.split(": ")[0] for each in replayed.missed] == [
            "GET https://files.test/b?token=left-out",
            "GET https://other.test/",
        ]
    assert len(site.asked) == 1


def test_filling_asks_only_for_what_is_missing(internet: Internet, tmp_path: Path) -> None:
    site = internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        recorded.curl("https://files.test/a")
    with front(tmp_path, internet, RecordingMode.FILL) as filled:
        assert filled.curl("https://files.test/a", "https://files.test/b").stdout == b"GET /aGET /b"
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("https://files.test/a", "https://files.test/b").stdout == b"GET /aGET /b"
    assert [each.path for each in site.asked] == ["/a", "/b"]


def test_recording_again_keeps_the_new_answer(internet: Internet, tmp_path: Path) -> None:
    content = [b"old", b"new"]
    internet.add("files.test", lambda request: (200, {}, content[0]))
    for _ in range(2):
        with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
            recorded.curl("https://files.test/")
        content.reverse()
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("https://files.test/").stdout == b"new"


@pytest.mark.parametrize("mode", [RecordingMode.RECORD, RecordingMode.REPLAY])
def test_parts_and_conditions_are_answered_from_the_whole(
    internet: Internet, tmp_path: Path, mode: RecordingMode
) -> None:
    changed = formatdate(1_700_000_000, usegmt=True)
    site = internet.add("files.test", lambda request: (200, {"ETag": '"one"', "Last-Modified": changed}, BIG))
    url = "https://files.test/big"
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        assert recorded.curl(url).stdout == BIG
    with front(tmp_path, internet, mode) as served:

        def ask(*headers: str) -> tuple[int, bytes]:
            words = [word for header in headers for word in ("-H", header)]
            done = served.curl(url, *words, "--write-out", "%{stderr}%{http_code}")
            return int(done.stderr), done.stdout

        assert ask("Range: bytes=10-19") == (206, BIG[10:20])
        assert ask("Range: bytes=5119990-") == (206, BIG[-10:])
        assert ask("Range: bytes=-7") == (206, BIG[-7:])
        assert ask("Range: bytes=5119999-9999999") == (206, BIG[-1:])
        assert ask(f"Range: bytes={len(BIG)}-") == (416, b"")
        assert ask("Range: bytes=0-1,5-6") == (200, BIG)
        assert ask("Range: lines=0-1") == (200, BIG)
        assert ask("Range: bytes=0-3", 'If-Range: "one"') == (206, BIG[:4])
        assert ask("Range: bytes=0-3", 'If-Range: "two"') == (200, BIG)
        assert ask("Range: bytes=0-3", f"If-Range: {changed}") == (206, BIG[:4])
        assert ask('If-None-Match: "two", W/"one"') == (304, b"")
        assert ask('If-None-Match: "two"') == (200, BIG)
        assert ask(f"If-Modified-Since: {changed}") == (304, b"")
        assert ask(f"If-Modified-Since: {formatdate(1_600_000_000, usegmt=True)}") == (200, BIG)
        assert ask("If-Modified-Since: no time") == (200, BIG)
    assert not any(name.startswith(("if-", "range")) for each in site.asked for name in each.headers)


def test_a_head_is_replayed_from_a_head_or_a_get(internet: Internet, tmp_path: Path) -> None:
    internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        assert b"content-length: 7" in recorded.curl("--head", "https://files.test/a").stdout.lower()
        recorded.curl("https://files.test/bcd")
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert b"content-length: 7" in replayed.curl("--head", "https://files.test/a").stdout.lower()
        assert b"content-length: 8" in replayed.curl("--head", "https://files.test/bcd").stdout.lower()
        assert replayed.curl("https://files.test/a", "--fail").returncode == 22


def test_redirects_are_kept_as_such_without_their_signatures(internet: Internet, tmp_path: Path) -> None:
    count = iter(range(100))

    def redirect(request: Request) -> Answer:
        if request.path == "/file":
            signed = f"https://store.test/object?X-Amz-Signature=s{next(count)}&jwt=hidden&part=1"
            return 302, {"Location": signed, "Set-Cookie": "session=hidden"}, b""
        return 200, {}, b"the object"

    internet.add("files.test", redirect)
    store = internet.add("store.test", redirect)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        done = recorded.curl("--location", "--include", "https://files.test/file")
        assert done.stdout.endswith(b"the object")
        assert b"session=hidden" in done.stdout
    assert "X-Amz-Signature=s0&jwt=hidden" in store.asked[0].path
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        done = replayed.curl("--location", "--include", "https://files.test/file")
        assert done.stdout.endswith(b"the object")
        assert b"cookie" not in done.stdout.lower()
    kept = b"".join(each.read_bytes() for each in (tmp_path / "recording").rglob("*") if each.is_file())
    assert b"the object" in kept
    assert b"hidden" not in kept
    assert b"=s0" not in kept


def test_credentials_reach_the_server_and_are_not_kept(internet: Internet, tmp_path: Path) -> None:
    def guarded(request: Request) -> Answer:
        if "authorization" not in request.headers:
            return 401, {"WWW-Authenticate": 'Basic realm="files"'}, b"who are you"
        return 200, {}, b"come in"

    site = internet.add("files.test", guarded)
    words = ("--anyauth", "https://ada:hidden@files.test/", "-H", "Cookie: session=hidden")
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        assert recorded.curl(*words).stdout == b"come in"
        assert recorded.curl("-u", "ada:hidden", "https://files.test/free").stdout == b"come in"
    assert [("authorization" in each.headers) for each in site.asked] == [False, True, True]
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl(*words).stdout == b"come in"
        # Without credentials, what was given for some is found where there is no other answer.
        assert replayed.curl("https://files.test/free").stdout == b"come in"
        assert replayed.curl("https://files.test/").stdout == b"who are you"
    kept = b"".join(each.read_bytes() for each in (tmp_path / "recording").rglob("*") if each.is_file())
    assert b"hidden" not in kept
    assert b"YWRhOmhpZGRlbg" not in kept


def test_answers_of_one_address_are_kept_by_what_was_asked_for(internet: Internet, tmp_path: Path) -> None:
    def choose(request: Request) -> Answer:
        accepted = request.headers["accept"]
        return 200, {"Vary": "Accept, Accept-Encoding", "Content-Type": accepted}, accepted.encode()

    internet.add("files.test", choose)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        for kind in ("text/html", "application/json"):
            recorded.curl("-H", f"Accept: {kind}", "https://files.test/")
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        for kind in ("application/json", "text/html"):
            assert replayed.curl("-H", f"Accept: {kind}", "https://files.test/").stdout.decode() == kind
        assert replayed.curl("-H", "Accept: image/png", "--fail", "https://files.test/").returncode == 22


def test_passing_failures_are_given_and_not_kept(internet: Internet, tmp_path: Path) -> None:
    internet.add("files.test", lambda request: (int(request.path[1:]), {}, request.path.encode()))
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        for status in (404, 429, 503):
            assert recorded.curl(f"https://files.test/{status}").stdout.decode() == f"/{status}"
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("https://files.test/404", "--write-out", "%{http_code}").stdout == b"/404404"
        for status in (429, 503):
            done = replayed.curl(f"https://files.test/{status}", "--write-out", "%{http_code}")
            assert done.stdout.endswith(b"504")


def test_a_program_that_stops_reading_does_not_stop_the_recording(internet: Internet, tmp_path: Path) -> None:
    internet.add("files.test", lambda request: (200, {}, BIG * 4))
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        assert recorded.curl("https://files.test/", "--max-filesize", "1000").returncode == 63
        while not [*(tmp_path / "recording" / "answers").rglob("*.json")]:
            pass
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert hashlib.sha256(replayed.curl("https://files.test/").stdout).digest() == hashlib.sha256(BIG * 4).digest()


def test_plain_http_is_recorded_and_certificates_are_for_the_name_that_was_asked(
    internet: Internet, tmp_path: Path
) -> None:
    internet.add("files.test", echo, port=80)
    internet.add("203.0.113.5", echo, port=80)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        assert recorded.curl("http://files.test/a").stdout == b"GET /a"
        assert recorded.curl("http://203.0.113.5/a").stdout == b"GET /a"
        done = recorded.curl("--head", "https://203.0.113.5/", "--write-out", "%{ssl_verify_result} %{http_version}")
        assert done.stdout.endswith(b"0 1.1")
        named = ("--resolve", "files.test:443:203.0.113.5", "--connect-to", "files.test:443:203.0.113.5:443")
        assert recorded.curl(*named, "--head", "https://files.test/", "--write-out", "%{ssl_verify_result}").stdout
    with front(tmp_path, internet, RecordingMode.REPLAY) as replayed:
        assert replayed.curl("http://files.test/a").stdout == b"GET /a"


def test_a_request_for_another_server_is_refused(internet: Internet, tmp_path: Path) -> None:
    site = internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        for words in (["-H", "Host: other.test"], ["--request-target", "https://other.test/"]):
            done = recorded.curl("https://files.test/", *words, "--write-out", "%{http_code}")
            assert done.stdout.endswith(b"421")
    assert not site.asked


def test_a_server_without_a_trusted_certificate_is_named(internet: Internet, tmp_path: Path) -> None:
    internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD, unverified=frozenset({"files.test"})) as recorded:
        assert recorded.curl("https://files.test/a").stdout == b"GET /a"
    internet.places["wrong.test", 443] = internet.places["files.test", 443]
    with front(tmp_path, internet, RecordingMode.RECORD) as recorded:
        done = recorded.curl("https://wrong.test/", "--write-out", "%{http_code}")
        assert done.stdout.endswith(b"502")
        assert b"wrong.test does not answer: its certificate is not trusted" in done.stdout
        done = recorded.curl("https://nowhere.test/")
        assert b"nowhere.test does not answer: Connection refused" in done.stdout


def test_servers_are_asked_through_the_proxies_of_the_user(internet: Internet, tmp_path: Path) -> None:
    internet.add("files.test", echo)
    internet.add("direct.test", echo)
    internet.add("plain.test", echo, port=80)
    with front(tmp_path / "other", internet, RecordingMode.RECORD) as other:
        tunnel = other.address.replace("//", "//ada:p%40ss@")

        def forward(request: Request) -> Answer:
            assert request.headers["proxy-authorization"] == "Basic YWRhOnBAc3M="
            return 200, {}, b"forwarded " + request.path.encode()

        proxy = internet.add("proxy.test", forward, port=3128)
        proxies = {
            "https": tunnel,
            "http": f"http://ada:p%40ss@127.0.0.1:{proxy.port}",
            "no": "other.test, .direct.test",
        }
        internet.trust(other.certificates)
        with front(tmp_path, internet, RecordingMode.RECORD, proxies=proxies) as recorded:
            assert recorded.curl("https://files.test/a").stdout == b"GET /a"
            assert recorded.curl("https://direct.test/b").stdout == b"GET /b"
            assert recorded.curl("http://plain.test/c").stdout == b"forwarded http://plain.test/c"
    kept = "".join(each.read_text() for each in (tmp_path / "other" / "recording" / "answers").rglob("*.json"))
    assert "https://files.test/a" in kept
    assert "direct.test" not in kept


@pytest.mark.parametrize("proxy", ["socks5://ada:hidden@proxy.test:1080", "http://ada:hid/den@proxy.test:1"])
def test_a_proxy_that_cannot_be_used_is_said_without_its_password(
    internet: Internet, tmp_path: Path, proxy: str
) -> None:
    site = internet.add("files.test", echo)
    with front(tmp_path, internet, RecordingMode.RECORD, proxies={"https": proxy}) as recorded:
        text = recorded.curl("https://files.test/").stdout
    assert b"files.test does not answer: " in text
    assert b"proxy" in text
    assert b"hid" not in text
    assert not site.asked
