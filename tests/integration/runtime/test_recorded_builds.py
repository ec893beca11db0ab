"""Builds download with the user's settings, and again from a recording alone; nothing of either is in the image."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from sandrl.errors import BuildError, SandrlError
from sandrl.events import BuildStep, Event
from sandrl.runtime.images.builds import build_image, find_build
from sandrl.runtime.images.merged import MergedTree
from sandrl.runtime.images.store import StoredImage, open_store
from sandrl.runtime.recording.recorder import RecordingMode
from sandrl.settings import Settings, load_settings
from tests.support.dockerfiles import BASE, Example, image_tree
from tests.support.image_trees import import_tree, make_busybox_tree
from tests.support.recordings import Answer, Internet, Request, Site

SECRET = "letmein"


@pytest.fixture
def internet() -> Iterator[Internet]:
    made = Internet()
    yield made
    made.close()


@pytest.fixture
def site(internet: Internet) -> Site:
    """A package index on this machine's loopback, without TLS."""

    def answer(request: Request) -> Answer:
        return 200, {"Content-Type": "text/plain"}, f"answer to {request.path}\n".encode()

    return internet.add("127.0.0.1", answer, port=80)


@pytest.fixture
def settings() -> Settings:
    import_tree(BASE, make_busybox_tree, {"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]})
    return load_settings()


class Builder:
    """Builds a Dockerfile with the settings of a user who has an index at an address of this machine."""

    def __init__(self, place: Path, settings: Settings, address: str) -> None:
        self.address = address
        self._place, self._settings = place, settings
        self.events: list[Event] = []

    def __call__(self, text: str, mode: RecordingMode | None, *, is_fresh: bool = True) -> StoredImage:
        self.events.clear()
        context = Example("x", text, {}).write(self._place / "context" / str(len(list(self._place.rglob("*")))))
        wanted, _ = find_build(context, None, {})
        environment = {"PIP_INDEX_URL": self.address.replace("//", f"//user:{SECRET}@") + "/simple"}
        recording = None if mode is None else (self._place / "recording", mode)
        return build_image(
            replace(wanted, is_fresh=is_fresh),
            None,
            self._settings,
            environment=environment,
            recording=recording,
            emit=self.events.append,
        )


@pytest.fixture
def build(tmp_path: Path, settings: Settings, site: Site) -> Builder:
    return Builder(tmp_path, settings, f"http://127.0.0.1:{site.port}")


def text_of(image: StoredImage, path: str) -> str:
    store = open_store(load_settings())
    layers = [store.layers / name for name in store.open(image.digest).layers]
    return MergedTree(layers, "image", keeps_owners=True).read(tuple(path.split("/")), 1 << 20).decode()


def test_what_was_recorded_is_built_again_without_its_servers(
    build: Builder, internet: Internet, site: Site, tmp_path: Path
) -> None:
    text = f"FROM BASE\nRUN wget -q -O /got {build.address}/file && cat /got\nADD {build.address}/added /added\n"
    build(text, RecordingMode.RECORD)
    asked = len(site.asked)
    assert asked >= 2
    internet.close()
    again = build(text, RecordingMode.REPLAY)
    assert (text_of(again, "got"), text_of(again, "added")) == ("answer to /file\n", "answer to /added\n")
    assert len(site.asked) == asked
    with pytest.raises(BuildError):
        build(text.replace("/file", "/other"), RecordingMode.REPLAY)
    with pytest.raises(SandrlError, match="is not in the recording"):
        build(f"FROM BASE\nADD {build.address}/other /added\n", RecordingMode.REPLAY)
    kept = b"".join(path.read_bytes() for path in (tmp_path / "recording").rglob("*") if path.is_file())
    assert SECRET.encode() not in kept


def test_the_settings_of_the_user_are_there_and_leave_nothing_in_the_image(build: Builder, site: Site) -> None:
    text = (
        'FROM BASE\nRUN test -n "$PIP_CONFIG_FILE" && grep -q index-url $PIP_CONFIG_FILE'
        f" && wget -q -O /got {build.address}/file\n"
        'RUN --network=none test -z "$PIP_CONFIG_FILE" && ! wget -q http://127.0.0.1:1/\n'
    )
    image = build(text, None)
    store = open_store(load_settings())
    assert not [path for path in image_tree(store, image.digest) if path.startswith("run")]
    manifest, _ = store.read(image.digest)
    document = json.loads(store.contents.blob(manifest.config.digest).read_bytes())
    assert "PIP_CONFIG_FILE" not in json.dumps(document["config"])
    everything = b"".join(map(_content, load_settings().cache_dir.rglob("*")))
    assert SECRET.encode() not in everything
    assert SECRET not in repr(build.events)
    build.address = "http://127.0.0.1:1"
    build(text, None, is_fresh=False)
    assert [each.condition for each in build.events if isinstance(each, BuildStep) and each.condition == "done"] == []


def _content(path: Path) -> bytes:
    # The layers of other images may have directories that are closed to everybody.
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size < 1 << 20 else b""
    except PermissionError:
        return b""


def test_an_answer_that_breaks_off_is_not_kept(tmp_path: Path) -> None:
    from sandrl.runtime.recording.recording import Recording
    from sandrl.runtime.recording.transport import RecordedTransport

    class Broken(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"begin"
            raise httpx.ReadError("broken")

    below = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, stream=Broken())))
    recording = Recording(tmp_path / "recording")
    client = httpx.Client(transport=RecordedTransport(recording, RecordingMode.FILL, below))
    with pytest.raises(httpx.ReadError), client.stream("GET", "http://a.example/x") as response:
        list(response.iter_bytes())
    replaying = httpx.Client(transport=RecordedTransport(recording, RecordingMode.REPLAY, below))
    with pytest.raises(httpx.ConnectError, match="not in the recording"):
        replaying.get("http://a.example/x")
