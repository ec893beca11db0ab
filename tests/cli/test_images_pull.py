"""`sandrl images pull`: images of registries, interrupted pulls, and what is said when there is none."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.cli.conftest import SANDRL, Run
from tests.support.programs import require_program
from tests.support.registries import (
    PASSWORD,
    USER,
    Asked,
    Image,
    Reply,
    ScriptedRegistry,
    debian_registry,
    make_image,
    push,
    scripted_registry,
    write_login,
)
from tests.support.terminal import CTRL_C, run_on_terminal


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "cache"
    monkeypatch.setenv("SANDRL_CACHE_DIR", str(directory))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    return directory


@pytest.fixture(scope="module")
def image() -> Image:
    return make_image(*({f"file{each}": random.Random(each).randbytes(1 << 20)} for each in range(3)))


@pytest.fixture
def registry(image: Image) -> Iterator[ScriptedRegistry]:
    with scripted_registry() as registry:
        registry.add(image)
        yield registry


class Half:
    """Gives the first half of each layer and nothing more, until it is told to."""

    def __init__(self, registry: ScriptedRegistry, image: Image) -> None:
        self._registry = registry
        self._layers = image.layers
        self._is_over = threading.Event()
        self.is_sent = threading.Semaphore(0)

    def __call__(self, asked: Asked) -> Reply | None:
        if self._is_over.is_set() or asked.path.rpartition("/")[2] not in self._layers:
            return None
        content = self._registry.usual(asked).body
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode()
        asked.handler.wfile.write(head + content[: len(content) // 2])
        self.is_sent.release()
        self._is_over.wait(60)
        asked.handler.close_connection = True
        return Reply(0)

    def end(self) -> None:
        self._is_over.set()


@pytest.fixture
def half(registry: ScriptedRegistry, image: Image) -> Iterator[Half]:
    half = Half(registry, image)
    registry.script = half
    yield half
    half.end()


def files_of(cache: Path, image: Image) -> list[bytes]:
    names = [path for path in (cache / "images" / "layers").rglob("file*") if path.is_file()]
    return [path.read_bytes() for path in sorted(names, key=lambda path: path.name)]


def is_whole(cache: Path, image: Image) -> bool:
    """Whether the store has every file of the image, and nothing that was left."""
    expected = [random.Random(each).randbytes(1 << 20) for each in range(3)]
    return files_of(cache, image) == expected and not [*(cache / "images" / "partial").iterdir()]


@pytest.mark.parametrize("needs_login", [False, True])
def test_an_image_is_pulled_from_debian_s_registry(
    sandrl: Run, tmp_path: Path, cache: Path, image: Image, needs_login: bool
) -> None:
    with debian_registry(tmp_path / "registry", needs_login=needs_login) as host:
        push(image, tmp_path / "layout", host, "team/image:1", "--dest-creds", f"{USER}:{PASSWORD}")
        if needs_login:
            refused = sandrl("images", "pull", f"{host}/team/image:1")
            assert refused.returncode == 3
            assert f"error: {host} denies access to {host}/team/image:1: it does not exist, or needs a login" in (
                refused.stderr
            )
            write_login(tmp_path / "docker", host)
        done = sandrl("images", "pull", f"{host}/team/image:1", f"{host}/team/image@{image.digest}", "--json")
        assert done.returncode == 0, done.stderr
        stored = json.loads(done.stdout)["images"]
        assert [each["name"] for each in stored] == [f"{host}/team/image:1", f"{host}/team/image@{image.digest}"]
        assert {each["digest"] for each in stored} == {image.digest}
        assert is_whole(cache, image)
        assert "copied 3 of 3" in done.stderr
        assert PASSWORD not in done.stdout + done.stderr
        listed = json.loads(sandrl("images", "ls", "--json").stdout)["images"]
        assert [each["digest"] for each in listed] == [image.digest]


def test_an_image_of_docker_hub_comes_from_its_mirror(sandrl: Run, registry: ScriptedRegistry, image: Image) -> None:
    registry.add(image, "3.13-slim")
    mirror = f"docker.io={registry.address}/hub"
    done = sandrl("images", "pull", "python:3.13-slim", "--json", SANDRL_REGISTRY_MIRRORS=mirror)
    assert done.returncode == 0, done.stderr
    assert [each["name"] for each in json.loads(done.stdout)["images"]] == ["python:3.13-slim"]
    assert {each.path.partition("/python/")[0] for each in registry.asked} == {"/v2/hub/library"}


def test_another_pull_of_a_name_takes_what_it_means_now_and_reads_no_layer_twice(
    sandrl: Run, registry: ScriptedRegistry, image: Image
) -> None:
    name = f"{registry.host}/image"
    assert sandrl("images", "pull", name).returncode == 0
    assert sandrl("images", "pull", name).stdout == (f"Stored {name}:latest: {image.digest} (3 layers, 3.1 MB)\n")
    assert registry.count("/blobs/") == len(image.blobs)
    other = make_image({"other": b"x"})
    registry.add(other)
    assert other.digest in sandrl("images", "pull", name).stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_pull_goes_on_where_it_was(
    sandrl: Run, registry: ScriptedRegistry, half: Half, image: Image, cache: Path, number: signal.Signals
) -> None:
    words = ["images", "pull", f"{registry.host}/image"]
    with subprocess.Popen([*SANDRL, *words], stderr=subprocess.PIPE, text=True) as command:
        # All layers are read at once.
        assert all(half.is_sent.acquire(timeout=60) for _ in image.layers)
        wait_for_halves(cache, image)
        command.send_signal(number)
        _, said = command.communicate(timeout=60)
    if number == signal.SIGINT:
        assert command.returncode == 130
        assert said.endswith(
            f"sandrl: error: interrupted: {registry.host}/image:latest is not stored yet\n"
            f"  hint: resume the pull: sandrl images pull {registry.host}/image:latest\n"
        )
    assert json.loads(sandrl("images", "ls", "--json").stdout) == {"images": []}
    half.end()
    done = len(registry.asked)
    assert sandrl(*words).returncode == 0
    ranges = [each.headers.get("Range", "") for each in registry.asked[done:] if "/blobs/" in each.path]
    starts = [int(each.removeprefix("bytes=").partition("-")[0]) for each in ranges if each]
    assert len(starts) == len(image.layers)
    assert min(starts) > 0
    assert is_whole(cache, image)


def wait_for_halves(cache: Path, image: Image) -> None:
    for digest in image.layers:
        path = cache / "images" / "partial" / digest.removeprefix("sha256:")
        while not path.exists() or path.stat().st_size < 1 << 18:
            threading.Event().wait(0.02)


def test_the_progress_of_each_layer_is_shown_on_a_terminal(
    registry: ScriptedRegistry, half: Half, image: Image
) -> None:
    shown = run_on_terminal(
        [*SANDRL, "images", "pull", f"{registry.host}/image"],
        typed=[(lambda text: all(f"copying {each} of 3: " in text for each in (1, 2, 3)), CTRL_C)],
    )
    assert shown.exit_code == 130
    assert "is not stored yet" in shown.plain
    assert "Traceback" not in shown.plain


@pytest.mark.parametrize("is_damaged", ["content", "too long"])
def test_a_layer_with_another_content_is_never_used(
    sandrl: Run, registry: ScriptedRegistry, image: Image, cache: Path, is_damaged: str
) -> None:
    digest = image.layers[1]
    right = image.blobs[digest]
    registry.blobs[digest] = right[:-1] + b"?" if is_damaged == "content" else right + b"?"
    done = sandrl("images", "pull", f"{registry.host}/image")
    assert done.returncode in (2, 3)
    assert "Traceback" not in done.stderr
    assert json.loads(sandrl("images", "ls", "--json").stdout) == {"images": []}
    registry.blobs[digest] = right
    assert sandrl("images", "pull", f"{registry.host}/image").returncode == 0
    assert is_whole(cache, image)


def test_pulls_of_the_same_image_at_once_read_each_layer_once(
    registry: ScriptedRegistry, image: Image, cache: Path
) -> None:
    words = [*SANDRL, "images", "pull", f"{registry.host}/image"]
    commands = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(4)]
    said = [command.communicate(timeout=120)[1] for command in commands]
    assert [command.returncode for command in commands] == [0] * len(commands), said
    assert registry.count("/blobs/") == len(image.blobs)
    assert is_whole(cache, image)


def test_what_is_wrong_is_said_in_two_lines_with_the_next_step(sandrl: Run, registry: ScriptedRegistry) -> None:
    host = registry.host

    def said(name: str, *words: str) -> str:
        done = sandrl("images", "pull", name, *words)
        assert done.returncode == 2
        first, second, *rest = done.stderr.splitlines()
        assert first.startswith("sandrl: error: ")
        assert second.startswith("  hint: ")
        assert not rest
        return f"{first}\n{second}"

    assert f"{host}: image has no tag 'latst'; did you mean 'latest'?" in said(f"{host}/image:latst")
    assert "is not the name of an image" in said("Image")
    registry.script = lambda asked: Reply(404)
    assert f"{host} has no image 'none'" in said(f"{host}/none")


def test_the_help_of_a_pull_loads_no_library_of_requests() -> None:
    code = "import sys; sys.argv = ['sandrl', 'images', 'pull', '--help']\n"
    code += "from sandrl.cli.entry import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "assert 'httpx' not in sys.modules"
    subprocess.run([SANDRL[0], "-c", code], check=True, stdout=subprocess.DEVNULL, env={**os.environ})


def test_a_disk_without_room_is_said_with_the_next_step(registry: ScriptedRegistry, cache: Path) -> None:
    cache.mkdir(mode=0o700)
    words = shlex.join([*SANDRL, "images", "pull", f"{registry.host}/image"])
    script = f"mount -t tmpfs -o size=2m,mode=700 none {cache} && exec {words}"
    unshare = [require_program("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(unshare, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert f"the store of images cannot be written ({cache}/images): No space left on device\n" in done.stderr
    assert "hint: remove unused images: sandrl images prune" in done.stderr


@pytest.mark.slow
def test_pulls_and_prunes_at_once_that_are_killed_at_random_leave_the_store_whole(
    sandrl: Run, registry: ScriptedRegistry, image: Image, cache: Path
) -> None:
    chance = random.Random(41)
    other = make_image({"file0": random.Random(0).randbytes(1 << 20)}, {"another": chance.randbytes(1 << 20)})
    registry.add(other, "other")
    pulls = [["pull", f"{registry.host}/image:{tag}"] for tag in ("latest", "other")]
    choices = [*pulls, *pulls, ["rm", f"{registry.host}/image:other"], ["prune"]]
    for _ in range(12):
        commands = [
            subprocess.Popen([*SANDRL, "images", *chance.choice(choices)], stdout=subprocess.DEVNULL, stderr=PIPE)
            for _ in range(8)
        ]
        for command in commands:
            if chance.random() < 0.4:
                threading.Event().wait(chance.random())
                command.kill()
        for command in commands:
            _, said = command.communicate(timeout=120)
            assert command.returncode in (0, -signal.SIGKILL) or b"there is no image" in said, said
            assert b"Traceback" not in said
    for words in pulls:
        assert sandrl("images", *words).returncode == 0
    assert sandrl("images", "rm", f"{registry.host}/image:other").returncode == 0
    assert sandrl("images", "prune").returncode == 0
    assert is_whole(cache, image)
    blobs = [path.name for path in (cache / "images" / "blobs" / "sha256").iterdir()]
    assert sorted(f"sha256:{name}" for name in blobs) == sorted(image.blobs)
