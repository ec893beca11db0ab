"""Builds of Dockerfiles: forms that buildah does not have, the cache, secrets, errors, kills."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.cli.progress import remark
from sandrl.errors import BuildError, InputError, ServiceError
from sandrl.events import BuildFailed, BuildOutput, BuildStep, Event, Warned
from sandrl.runtime.images.builds import build_image, find_build
from sandrl.runtime.images.merged import MergedTree
from sandrl.runtime.images.provision import provide
from sandrl.runtime.images.removal import list_images, prune
from sandrl.runtime.images.store import ImageStore, StoredImage, open_store
from sandrl.sandboxes import SandboxRequest
from sandrl.settings import Settings, load_settings
from tests.support.archives import layout
from tests.support.dockerfiles import BASE, Example, image_tree, packed
from tests.support.drivers import answer_of
from tests.support.image_trees import import_layout, import_tree, make_busybox_tree, make_python_tree

FORK = """
import sys
from pathlib import Path
from sandrl.runtime.images.builds import build_image, find_build
from sandrl.settings import load_settings
build_image(find_build(Path(sys.argv[1]), None, {})[0], "tests/killed:1", load_settings(), environment={},
    emit=lambda event: print(type(event).__name__, getattr(event, "number", ""), flush=True))
"""


@pytest.fixture
def settings() -> Settings:
    import_tree(BASE, make_busybox_tree, {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]})
    return load_settings()


@pytest.fixture
def store(settings: Settings) -> ImageStore:
    return open_store(settings)


_USER = 12345


class Builder:
    """Builds contexts below a directory, and remembers the events."""

    def __init__(self, place: Path, settings: Settings) -> None:
        self._place = place
        self._settings = settings
        self.events: list[Event] = []

    def __call__(self, text: str, files: dict[str, str | bytes] | None = None, **changes: Any) -> StoredImage:
        self.events.clear()
        context = Example("x", text, files or {}).write(self._place / str(len(os.listdir(self._place))))
        wanted, _ = find_build(context, None, {}, self.events.append)
        return build_image(replace(wanted, **changes), None, self._settings, environment={}, emit=self.events.append)

    @property
    def taken(self) -> list[str]:
        """The instructions that were not stored before."""
        return [each.instruction for each in self.events if isinstance(each, BuildStep) and each.condition == "done"]

    @property
    def output(self) -> list[str]:
        return [each.line for each in self.events if isinstance(each, BuildOutput)]


@pytest.fixture
def build(tmp_path: Path, settings: Settings) -> Builder:
    place = tmp_path / "contexts"
    place.mkdir()
    return Builder(place, settings)


def _text(store: ImageStore, image: StoredImage, path: str) -> str:
    layers = [store.layers / name for name in store.open(image.digest).layers]
    return MergedTree(layers, "image", keeps_owners=True).read(tuple(path.split("/")), 1 << 20).decode()


def test_here_documents_are_scripts_inputs_and_files(build: Builder, store: ImageStore) -> None:
    image = build(
        "FROM BASE\nENV A=1\n"
        "RUN <<EOF\necho script $A > /script\nfalse\necho goes on >> /script\nEOF\n"
        "RUN <<EOF cat > /input && echo more >> /input\ntext $A\nEOF\n"
        "RUN <<EOF\n#!/bin/cat\nwhole\nEOF\n"
        "COPY <<one.txt <<'two.txt' /to/\na $A\none.txt\nb $A\ntwo.txt\n"
    )
    assert _text(store, image, "script") == "script 1\ngoes on\n"
    assert _text(store, image, "input") == "text 1\nmore\n"
    assert (_text(store, image, "to/one.txt"), _text(store, image, "to/two.txt")) == ("a 1\n", "b $A\n")
    assert build.output == ["#!/bin/cat", "whole"]
    assert not [path for path in image_tree(store, image.digest) if path.startswith("tmp/")]


def test_a_second_build_takes_no_step_and_has_the_same_digest(build: Builder) -> None:
    text = (
        "FROM BASE AS one\nRUN echo 1 > /1\nFROM BASE\nWORKDIR /w\nCOPY f .\nCOPY --from=one /1 .\nRUN cat f\nCMD x\n"
    )
    first = build(text, {"f": "x"})
    assert len(build.taken) == 5
    second = build(text, {"f": "x"})
    assert (build.taken, second.digest) == ([], first.digest)


def test_a_program_is_told_when_it_begins_to_run_and_not_if_it_was_stored(build: Builder) -> None:
    text = "FROM BASE\nRUN echo told > /1\nWORKDIR /w\n"

    def conditions() -> list[str]:
        steps = [each for each in build.events if isinstance(each, BuildStep)]
        return [each.condition for each in steps if each.instruction.startswith("RUN")]

    build(text)
    assert conditions() == ["begun", "runs", "done"]
    said = [remark(each) for each in build.events if isinstance(each, BuildStep)]
    assert "Build: [2/3] RUN echo told > /1 …" in said
    build(text)
    assert conditions() == ["begun", "cached"]
    assert not any(remark(each) for each in build.events if isinstance(each, BuildStep))


def test_only_what_follows_a_change_is_taken_again(build: Builder) -> None:
    text = "FROM BASE\nLABEL a=LABEL\nRUN echo RUN > /1\nCOPY f /\nRUN cat /f\n"
    build(text, {"f": "x"})
    build(text.replace("LABEL a", "LABEL b"), {"f": "x"})
    assert build.taken == []
    build(text, {"f": "y"})
    assert build.taken == ["COPY f /", "RUN cat /f"]
    build(text, {"f:755": "y"})
    assert build.taken == ["COPY f /", "RUN cat /f"]
    build(text, {"f": "x", "other": "y"}, is_fresh=True)
    assert len(build.taken) == 3


def test_values_of_arguments_decide_about_the_steps_that_see_them(build: Builder) -> None:
    text = "FROM BASE\nRUN echo before > /1\nARG A=1\nRUN echo $A > /a\n"
    build(text)
    build(text, arguments={"A": "2"})
    assert build.taken == ["RUN echo $A > /a"]
    build(text, arguments={"A": "2", "http_proxy": "http://proxy.test"})
    assert build.taken == []
    build(text, arguments={"Z": "1"})
    (warned,) = [each.message for each in build.events if isinstance(each, Warned)]
    assert warned.endswith("has no ARG Z, so its value has no effect")


def test_a_secret_is_seen_by_its_command_and_is_in_no_layer_nor_key(build: Builder, store: ImageStore) -> None:
    text = (
        "FROM BASE\nRUN --mount=type=secret,id=a --mount=type=secret,id=b,target=/root/.b,mode=0440 "
        "--mount=type=secret,id=c,env=C cat /run/secrets/a /root/.b && echo $C | tr a-z A-Z\n"
        "RUN --network=none ls -A /run /root > /left\n"
    )
    secrets = {"a": b"first-secret\n", "b": b"second-secret\n", "c": b"third"}
    image = build(text, secrets=secrets)
    assert build.output == ["first-secret", "second-secret", "THIRD"]
    assert _text(store, image, "left") == "/root:\n\n/run:\n"
    build(text, secrets=dict.fromkeys(secrets, b"other"))
    assert build.taken == []
    for path in [*store.root.rglob("*")]:
        if path.is_file() and not path.is_symlink():
            assert b"-secret" not in path.read_bytes().replace(b"type-secret", b""), path


def test_a_secret_that_is_required_must_be_given(build: Builder) -> None:
    with pytest.raises(InputError, match="'a' is required") as refused:
        build("FROM BASE\nRUN --mount=type=secret,id=a,required=true true\n")
    assert refused.value.line == 2
    build("FROM BASE\nRUN --mount=type=secret,id=a test ! -e /run/secrets/a\n")


def test_a_cache_keeps_its_files_between_steps_and_builds(build: Builder, store: ImageStore) -> None:
    mount = f"--mount=type=cache,id={os.urandom(4).hex()},target=/var/kept"
    text = f"FROM BASE\nRUN {mount} echo 1 >> /var/kept/x\nRUN {mount} cat /var/kept/x && ls /var > /n\n"
    build(text)
    assert build.output == ["1"]
    image = build(text, is_fresh=True)
    assert build.output == ["1", "1"]
    assert "var/kept" not in image_tree(store, image.digest)
    prune(store)
    assert not list(store.caches.iterdir())


def test_a_directory_that_is_mounted_is_not_changed(build: Builder, store: ImageStore) -> None:
    image = build(
        "FROM BASE\nRUN --mount=target=/ctx --mount=source=f,target=/etc/os-release "
        "cat /ctx/f /etc/os-release > /seen; rm -r /ctx/f; echo x > /etc/os-release\n",
        {"f": "content\n"},
    )
    files = image_tree(store, image.digest)
    assert _text(store, image, "seen") == "content\ncontent\n"
    assert _text(store, image, "etc/os-release") == "ID=busybox\n"
    assert "ctx" not in files


def test_a_command_that_fails_shows_its_step_its_last_lines_and_its_line(build: Builder) -> None:
    with pytest.raises(BuildError, match=r"Dockerfile:3: RUN .* failed with exit code 7"):
        build("FROM BASE\n\nRUN for i in $(seq 30); do echo $i; done; printf last; exit 7\n")
    (failed,) = [each for each in build.events if isinstance(each, BuildFailed)]
    assert (failed.line, failed.output[-2:], len(failed.output)) == (3, ("30", "last"), 10)
    with pytest.raises(BuildError, match="exit code 127"):
        build('FROM BASE\nRUN ["nothing"]\n')
    build("FROM BASE\nRUN echo still usable\n")


@pytest.mark.parametrize(
    ("text", "files", "line", "words"),
    [
        ("COPY missing /", {}, 2, "there is no 'missing'"),
        ("COPY *.x /", {}, 2, "there is no '\\*.x'"),
        ("COPY f /", {"f": "x", ".dockerignore": "f"}, 2, "left out of the context"),
        ("COPY link /", {"link": "->../../outside"}, 2, "there is no 'link'"),
        ("COPY --chown=nobody-here f /", {"f": "x"}, 2, "no user 'nobody-here'"),
        ("COPY f /srv/\nCOPY d /srv/f", {"f": "x", "d/a": "x"}, 3, "is a file in the image"),
        ("COPY f /etc/passwd/x", {"f": "x"}, 2, "is not a directory"),
        ("COPY d /", {"d/.wh.x": ""}, 2, "layers have it for removed files"),
        ("ADD a.tar /", {"a.tar": packed({"../x": "1"})}, 2, "`..`"),
        ("COPY --from=nothing/here:1 /a /", {}, 2, None),
        ('ENV A="${B:?is needed}"', {}, 2, "is needed"),
        ("EXPOSE http", {}, 2, "a port is not a number"),
        ("EXPOSE 80/xyz", {}, 2, "is not a port"),
        ("RUN --mount=target=/proc/x true", {}, 2, "/proc"),
        ("RUN --mount=type=tmpfs,target=/ true", {}, 2, "cannot be at /"),
        ("RUN --mount=source=f,target=/x --mount=source=g,target=/x true", {"f": "1", "g": "2"}, 2, "another one is"),
        ("RUN --mount=type=secret,id=s,mode=77777 true", {}, 2, "too large"),
        ("RUN --mount=type=secret,id=s,uid=4294967295 true", {}, 2, "too large"),
        ("USER nobody-here\nRUN true", {}, 3, "no user 'nobody-here'"),
        ("COPY --chown=4294967295 f /", {"f": "x"}, 2, "no user '4294967295'"),
        ("WORKDIR /.wh.etc", {}, 2, "layers have it for removed files"),
        ("COPY f /.wh.etc/f", {"f": "x"}, 2, "layers have it for removed files"),
        ("ADD http://[x /y", {}, 2, "is not valid"),
        ("ADD http://host.example/.. /y/", {}, 2, "has no file name"),
    ],
)
def test_what_cannot_be_built_names_the_line(
    build: Builder, text: str, files: dict[str, str | bytes], line: int | None, words: str | None
) -> None:
    with pytest.raises((InputError, ServiceError) if words is None else Exception, match=words) as refused:
        build(f"FROM BASE\n{text}\n", files, secrets={"s": b"x"})
    if line is not None and words is not None:
        assert isinstance(refused.value, InputError)
        assert refused.value.line == line


def test_nothing_is_built_of_a_file_with_an_instruction_that_is_not_supported(build: Builder) -> None:
    with pytest.raises(InputError, match=r"Dockerfile:3: ONBUILD"):
        build("FROM BASE\nRUN echo 1\nONBUILD RUN x\n")
    assert build.events == []


def test_links_of_a_context_and_of_an_image_lead_nowhere_else(
    build: Builder, store: ImageStore, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    image = build(
        "FROM BASE AS one\nRUN ln -s OUTSIDE /out && ln -s ../../../../.. /up\n"
        "FROM one\nCOPY f /out/f\nCOPY f /up/g\nCOPY d /d\nADD a.tar /t/\n".replace("OUTSIDE", str(outside)),
        {"f": "x", "d/link": f"->{outside}/secret", "a.tar": packed({"x": "1"})},
    )
    files = image_tree(store, image.digest)
    assert os.listdir(outside) == ["secret"]
    assert files[f"{str(outside).strip('/')}/f"][0] == stat.S_IFREG
    assert files["g"][0] == stat.S_IFREG
    assert files["d/link"] == (stat.S_IFLNK, "0o0", 0, 0, f"{outside}/secret")
    with pytest.raises(InputError, match="there is no 'd/link'"):
        build("FROM BASE\nCOPY d/link /x\n", {"d/link": f"->{outside}/secret"})


def test_the_places_of_options_that_buildah_does_not_have(build: Builder, store: ImageStore) -> None:
    image = build(
        "FROM BASE\nRUN --network=none echo 1 > /1\nCOPY --parents a/./b/c a/d /p/\nCOPY --exclude=*.md --link a /e\n",
        {"a/b/c": "c", "a/d": "d", "a/x.md": "x"},
    )
    files = image_tree(store, image.digest)
    assert {path for path in files if path.startswith(("p/", "e/"))} == {
        "p/b",
        "p/b/c",
        "p/a",
        "p/a/d",
        "e/b",
        "e/b/c",
        "e/d",
    }


def test_a_shell_of_the_file_is_that_of_its_programs(build: Builder, store: ImageStore) -> None:
    image = build('FROM BASE\nSHELL ["/bin/sh", "-ec"]\nCMD echo 1\nENTRYPOINT echo 2\n')
    assert store.open(image.digest).config.command == ("/bin/sh", "-ec", "echo 1")
    assert store.open(image.digest).config.entrypoint == ("/bin/sh", "-ec", "echo 2")


@pytest.fixture
def served() -> Iterator[Callable[..., str]]:
    """The address of a server that answers with a content."""
    opened = []

    def serve(content: bytes, *, is_whole: bool = False) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        opened.append(listener)

        def answer() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
                    connection.sendall(content if is_whole else head.encode() + content)

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/dir/file.bin?x=1"

    yield serve
    for each in opened:
        each.shutdown(socket.SHUT_RDWR)
        each.close()


def test_an_address_is_added_with_its_checksum(build: Builder, store: ImageStore, served: Callable[..., str]) -> None:
    address, digest = served(b"content"), hashlib.sha256(b"content").hexdigest()
    here = (address.split("/")[2],)
    image = build(f"FROM BASE\nADD --checksum=sha256:{digest} {address} /to/\nADD {address} /x\n", private_hosts=here)
    files = image_tree(store, image.digest)
    assert files["to/file.bin"][:2] == (stat.S_IFREG, "0o600")
    assert files["x"][4] == digest
    with pytest.raises(InputError, match="changed while it was copied"):
        build(f"FROM BASE\nADD --checksum=sha256:{'0' * 64} {address} /y\n", private_hosts=here)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "user:word@127.0.0.1"])
def test_an_address_of_this_machine_is_not_added(build: Builder, served: Callable[..., str], host: str) -> None:
    with pytest.raises(ServiceError, match="may not be reached") as caught:
        build(f"FROM BASE\nADD {served(b'content').replace('127.0.0.1', host)} /x\n")
    assert "word" not in str(caught.value)


def test_builds_of_a_job_reach_its_private_hosts(
    tmp_path: Path, settings: Settings, served: Callable[..., str]
) -> None:
    first, second = served(b"one"), served(b"two")
    written = [
        Example("x", f"FROM BASE\nADD {each} /x\n").write(tmp_path / name)
        for name, each in zip("ab", (first, second), strict=True)
    ]
    image, another = (f"dockerfile:{each}" for each in written)
    with pytest.raises(ServiceError, match="may not be reached"):
        SandboxRequest(runtime="local", image=image).connect(settings)
    hosts = tuple(each.split("/")[2] for each in (first, second))
    connection = SandboxRequest(runtime="local", image=image, private_hosts=hosts).connect(settings)
    assert connection.with_image(another).image != connection.image


def test_a_redirect_to_this_machine_is_not_followed(build: Builder, served: Callable[..., str]) -> None:
    inner = served(b"content")
    answer = f"HTTP/1.1 302 Found\r\nLocation: {inner}\r\nContent-Length: 0\r\n\r\n".encode()
    outer = served(answer, is_whole=True)
    with pytest.raises(ServiceError, match="may not be reached"):
        build(f"FROM BASE\nADD {outer} /x\n", private_hosts=(outer.split("/")[2],))


def test_the_network_of_a_program_is_part_of_its_key(build: Builder) -> None:
    text = "FROM BASE\nRUN grep -c : /proc/net/dev > /n\n"
    build(text, network="none")
    build(text, network="public")
    assert build.taken == ["RUN grep -c : /proc/net/dev > /n"]


def _archive(*members: tuple[str, str | bytes], mode: str = "w") -> bytes:
    # Files with their contents, and hard links with their targets.
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, value in members:
            member = tarfile.TarInfo(name)
            if isinstance(value, str):
                member.type, member.linkname = tarfile.LNKTYPE, value
            else:
                member.size = len(value)
            archive.addfile(member, io.BytesIO(b"" if isinstance(value, str) else value))
    return content.getvalue()


def test_a_hard_link_of_an_archive_is_found_through_a_link_of_the_image(build: Builder) -> None:
    archive = _archive(("lib/a", b"text"), ("lib/b", "lib/a"))
    build("FROM BASE\nRUN mkdir -p /real && ln -s real /lib\nADD a.tar /\nRUN cat /real/b\n", {"a.tar": archive})
    assert build.output == ["text"]


def test_a_damaged_archive_is_not_copied_as_a_file(build: Builder) -> None:
    whole = _archive(("a", os.urandom(100_000)), mode="w:gz")
    with pytest.raises(InputError, match=r"Dockerfile:2: the archive a.tar.gz cannot be unpacked"):
        build("FROM BASE\nADD a.tar.gz /x/\n", {"a.tar.gz": whole[:60_000]})


def test_what_only_begins_like_an_archive_is_copied(build: Builder, store: ImageStore) -> None:
    image = build("FROM BASE\nADD a.xz /x/\n", {"a.xz": b"\xfd7zXZ\x00 no archive"})
    assert "x/a.xz" in image_tree(store, image.digest)


def test_a_line_of_output_without_an_end_is_shown_in_pieces(build: Builder) -> None:
    build("FROM BASE\nRUN head -c 1000000 /dev/zero | tr '\\0' a\n")
    assert "".join(build.output) == "a" * 1_000_000
    assert max(map(len, build.output)) < 500_000


def test_an_image_with_a_history_that_is_none_can_be_built_on(build: Builder, tmp_path: Path) -> None:
    import_layout(layout(tmp_path / "layout", packed({"a": "1"}), changes={"history": 5}), "tests/odd:1")
    build("FROM tests/odd:1\nCOPY f /\n", {"f": "x"})


def test_a_compose_file_with_one_service_names_the_build(tmp_path: Path, settings: Settings) -> None:
    Example("x", "FROM BASE AS a\nARG V\nARG W\nRUN echo $V $W > /v\nFROM BASE\nRUN false\n").write(
        tmp_path / "app" / "ctx"
    )
    (tmp_path / "app/compose.yaml").write_text(
        "services:\n  web:\n    build: {context: ctx, target: a, args: {V: '${VALUE:-3}', W: true}}\n"
        "    image: tests/compose:${TAG}\n    ports: ['80:80']\n"
    )
    events: list[Event] = []
    wanted, name = find_build(tmp_path / "app", None, {"TAG": "7"}, events.append)
    image = build_image(wanted, name, settings, environment={})
    assert name == "tests/compose:7"
    assert open_store(settings).digest_of(name) == image.digest
    assert _text(open_store(settings), image, "v") == "3 true\n"
    assert [each.message.partition(": ")[2] for each in events if isinstance(each, Warned)] == [
        "only the build is read, not ports"
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services: {a: {build: .}, b: {image: x}}", r"several services \(a, b\)"),
        ("services: {a: {image: x}}", "only the image x"),
        ("services: {a: {build: {context: ., ssh: x}}}", "'ssh', which is not supported"),
        ("services: {a: {build: '${NONE}'}}", "NONE is not set"),
        ("a: [", "is not YAML"),
        ("[]", "is not a Compose file"),
        ("a: &a [x]\nb: [" + "*a, " * 200 + "]", "aliases"),
    ],
)
def test_a_compose_file_that_is_no_single_build_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "docker-compose.yaml").write_text(text)
    with pytest.raises(InputError, match=words):
        find_build(tmp_path, None, {})


def test_dockerfile_names_an_image_that_is_built_when_it_changes(tmp_path: Path, settings: Settings) -> None:
    context = Example("x", "FROM BASE\nCOPY f /\n", {"f": "1"}).write(tmp_path / "c")
    first = provide(f"dockerfile:{context}", settings, environment={})
    assert provide(f"dockerfile:{context}", settings, environment={}) == first
    (context / "f").write_text("2")
    second = provide(f"dockerfile:{context}", settings, environment={})
    assert second != first
    assert [row.digest for row in list_images(open_store(settings)) if f"dockerfile:{context}" in row.names] == [second]


def test_builds_of_one_file_at_once_take_each_step_once(tmp_path: Path, settings: Settings, store: ImageStore) -> None:
    text = f"FROM BASE\nRUN sleep 1; echo {os.urandom(4).hex()} > /x\nCOPY f /\nRUN cat /x f > /y\n"
    context = Example("x", text, {"f": "x"}).write(tmp_path / "c")
    found: list[str] = []
    taken: list[str] = []

    def work() -> None:
        def note(event: Event) -> None:
            if isinstance(event, BuildStep) and event.condition == "done":
                taken.append(event.instruction)

        found.append(build_image(find_build(context, None, {})[0], None, settings, environment={}, emit=note).digest)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert len(taken) == 3


@pytest.mark.slow
def test_a_build_that_is_killed_at_any_step_is_finished_by_the_next(
    tmp_path: Path, settings: Settings, store: ImageStore
) -> None:
    mark = os.urandom(4).hex()
    text = f"FROM BASE\nRUN echo {mark} > /x; sleep 0.2\nCOPY f /\nRUN cat /x /f > /y; sleep 0.2\nWORKDIR /w\n"
    context = Example("x", text, {"f": "content\n"}).write(tmp_path / "c")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for events in range(1, 12):
        process = subprocess.Popen(
            [sys.executable, "-c", FORK, context], stdout=subprocess.PIPE, env=environment, text=True
        )
        assert process.stdout is not None
        for _ in range(events):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    wanted, _ = find_build(context, None, {})
    image = build_image(wanted, "tests/killed:1", settings, environment={})
    assert _text(store, image, "y") == f"{mark}\ncontent\n"
    assert store.digest_of("tests/killed:1") == image.digest


def test_an_exported_image_says_what_was_done(build: Builder, store: ImageStore) -> None:
    image = build("FROM BASE\nMAINTAINER me\nRUN echo 1 > /1\nCMD x\n")
    manifest, configuration = store.read(image.digest)
    document = json.loads(store.contents.blob(manifest.config.digest).read_bytes())
    layers = [each for each in document["history"] if not each.get("empty_layer")]
    assert (len(layers), document["author"]) == (len(configuration.rootfs.diff_ids), "me")
    assert [each["created_by"] for each in document["history"]][-3:] == ["MAINTAINER me", "RUN echo 1 > /1", "CMD x"]


def test_a_connection_that_is_refused_is_named(build: Builder, store: ImageStore) -> None:
    import_tree("localhost/tests/python:1", make_python_tree, {"Env": ["PATH=/usr/local/bin:/bin"]})
    attempt = "import socket; print(socket.socket().connect_ex(('10.1.2.3', 80)) != 0)"
    build(f'FROM localhost/tests/python:1\nRUN python -c "{attempt}"\n', is_fresh=True)
    assert any(line.startswith("network: 10.1.2.3:80: ") for line in build.output), build.output


def test_a_cache_may_be_seen_at_two_places_by_builds_at_once(tmp_path: Path, settings: Settings) -> None:
    mark = os.urandom(4).hex()

    def command(*names: str) -> str:
        mounts = " ".join(
            f"--mount=type=cache,id={mark}-{name},target=/var/{place}" for place, name in enumerate(names)
        )
        return f"FROM BASE\nRUN {mounts} sleep 0.5; echo {'-'.join(names)}\n"

    texts = [command("a", "b"), command("b", "a"), command("a", "a")]
    done: list[str] = []
    threads = []
    for number, text in enumerate(texts):
        context = Example("x", text).write(tmp_path / str(number))
        wanted, _ = find_build(context, None, {})
        work = threading.Thread(
            target=lambda each: done.append(build_image(each, None, settings, environment={}).digest), args=(wanted,)
        )
        work.start()
        threads.append(work)
    for each in threads:
        each.join(60)
    assert len(done) == 3


@pytest.mark.parametrize(
    ("mode", "found"),
    [
        ("native from an image as another user", ["0", "OSError: [Errno 22] Invalid argument: '/made'"]),
        ("native from an image as another user with ids of /etc/subuid", ["7", "7"]),
    ],
)
def test_owners_change_in_a_step_or_at_least_nothing_fails(mode: str, found: list[str]) -> None:
    if os.geteuid():
        pytest.skip("only root can run a program as another user")
    place = Path(tempfile.mkdtemp(prefix="sandrl-owners-"))
    place.chmod(0o755)
    try:
        assert answer_of(place, mode, "sandbox_driver.py", "owners", user=_USER) == found
    finally:
        shutil.rmtree(place, ignore_errors=True)
