"""Packages are installed once, without running code of theirs, and sandboxes see exactly those that were requested."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from cwsandbox import Session

from sandrl.errors import SandrlError, ServiceError, UsageError
from sandrl.events import Event, PackagesInstalling, Warned
from sandrl.runtime import installer
from sandrl.runtime.packages import build_overlay, modules_of_packages, requirements_of
from sandrl.runtime.state import DaemonEndpoint, RuntimeDirectory
from sandrl.sandboxes.commands import Command
from sandrl.sandboxes.providers.cwsandbox.client import SdkConnection
from sandrl.sandboxes.providers.protocol import Packages, Result
from sandrl.settings import RuntimeKind
from tests.support.wheels import Index, served, use

IMAGE = f"host:3.{sys.version_info[1]}"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    """An index of the test's own, instead of that of all tests."""
    return use(monkeypatch, Index(tmp_path / "wheels"))


def build(
    tmp_path: Path, *asked: str, needed: Sequence[str] = (), state: Path | None = None, told: list[Event] | None = None
) -> str:
    events = [] if told is None else told
    place = state or tmp_path / "state"
    return build_overlay(asked, needed, tmp_path / "cache", place, image=IMAGE, emit=events.append)


def layer(tmp_path: Path, name: str) -> Path:
    return RuntimeDirectory(tmp_path / "state").overlays / name


def test_sandboxes_can_import_the_packages_that_they_were_given_with_what_these_require_and_no_others(
    session: Session, endpoint: DaemonEndpoint, wheels: Index, tmp_path: Path
) -> None:
    wheels.add("alpha", requires=["beta>=2"])
    wheels.add("beta", "2.0")
    wheels.add("gamma")
    first, second = (build(tmp_path, name, state=endpoint.state_dir) for name in ("alpha", "gamma"))
    program = (
        "from importlib.util import find_spec\n"
        "print(*(find_spec(name) and find_spec(name).origin for name in ('alpha', 'beta', 'gamma', 'rich')))"
    )
    place = f"/usr/local/lib/python3.{sys.version_info[1]}"
    for overlay, names in ((first, ["alpha", "beta"]), (second, ["gamma"])):
        sandbox = session.sandbox(container_image=IMAGE, annotations={"sandrl.dev/packages": overlay})
        found = sandbox.exec(["python", "-c", program]).result().stdout.split()
        assert [each for each in found if each != "None"] == [f"{place}/site-packages/{name}.py" for name in names]
        refused = sandbox.exec(["touch", f"{place}/site-packages/evil"]).result().stderr
        assert "Read-only file system" in refused


def test_packages_are_installed_once_and_need_no_index_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = Index(tmp_path / "wheels")
    wheels.add("alpha")
    told: list[Event] = []
    with served(monkeypatch, wheels) as requested:
        name = build(tmp_path, "alpha", told=told)
        assert told == [PackagesInstalling(("alpha",))]
        assert [path for path in requested if path.endswith(".whl")]
        requested.clear()
        assert build(tmp_path, "Alpha") == name
        assert requested == []
    # The server is gone.
    assert build(tmp_path, "alpha") == name
    assert modules_of_packages(["alpha"], [], tmp_path / "cache") == frozenset({"alpha"})
    with pytest.raises(ServiceError, match="cannot be reached") as caught:
        build(tmp_path, "alpha", "beta")
    assert "were not installed before" in caught.value.message


def test_two_requests_at_once_install_packages_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = Index(tmp_path / "wheels")
    wheels.add("alpha")
    names: list[str] = []
    told: list[Event] = []
    with served(monkeypatch, wheels):
        threads = [threading.Thread(target=lambda: names.append(build(tmp_path, "alpha", told=told))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(names) == 3
    assert len(set(names)) == 1
    assert told == [PackagesInstalling(("alpha",))]


def test_another_version_is_another_layer(wheels: Index, tmp_path: Path) -> None:
    wheels.add("alpha", "1.0")
    wheels.add("alpha", "2.0")
    newest, old, ranged = build(tmp_path, "alpha"), build(tmp_path, "alpha==1.0"), build(tmp_path, "alpha>=1", "<2")
    assert newest != old == ranged
    assert "2.0" in (layer(tmp_path, newest) / "alpha.py").read_text()
    assert "1.0" in (layer(tmp_path, old) / "alpha.py").read_text()


PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def hostile(tmp_path: Path, wheels: Index, place: Path) -> Path:
    """A package without a wheel, whose build leaves a file."""
    source = tmp_path / "hostile-1.0"
    source.mkdir()
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "backend.py").write_text(f"open({str(place)!r}, 'w').close()\n")
    archive = wheels.directory / "hostile-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(source, "hostile-1.0")
    return archive


@pytest.mark.parametrize("way", ["package", "requirement"])
def test_a_package_that_would_have_to_be_built_is_refused_and_none_of_its_code_runs(
    way: str, wheels: Index, tmp_path: Path
) -> None:
    place = tmp_path / "ran"
    archive = hostile(tmp_path, wheels, place)
    if way == "requirement":
        wheels.add("alpha", requires=[f"hostile @ {archive.as_uri()}"])
    with pytest.raises(UsageError) as caught:
        build(tmp_path, "alpha" if way == "requirement" else "hostile")
    assert not place.exists()
    assert "hostile" in caught.value.message
    assert "has no wheel for Python 3" in caught.value.message


def test_no_code_of_a_package_runs_at_the_start_of_an_interpreter(wheels: Index, tmp_path: Path) -> None:
    wheels.add("alpha", files={"alpha.py": "", "alpha.pth": "import os; os.abort()\n", "sitecustomize.py": "1/0"})
    found = {path.name for path in layer(tmp_path, build(tmp_path, "alpha")).iterdir()}
    assert found == {"alpha.py", "__pycache__", "alpha-1.0.dist-info"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["missing"], "the package index has no package 'missing'"),
        (["alpha==9"], "the package index has no 'alpha==9' for Python 3.*; the newest is 1.0"),
        (["other"], "'other' has no wheel for Python 3"),
        (["alpha", "beta"], "cannot be installed: .*conflict"),
        (["a b"], "'a b' is not a package with an optional version"),
        (["alpha @ file:///alpha.whl"], "is not a package with an optional version"),
    ],
)
def test_the_reason_is_one_line_and_says_what_to_do(
    asked: list[str], message: str, wheels: Index, tmp_path: Path
) -> None:
    wheels.add("alpha")
    wheels.add("beta", requires=["alpha>1"])
    wheels.add("other", tag="cp38-cp38-win_amd64")
    with pytest.raises(UsageError, match=message) as caught:
        build(tmp_path, *asked)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert list((tmp_path / "cache").glob("layers/.new-*")) == []


def test_what_problems_need_and_cannot_be_installed_is_left_out_with_a_warning(wheels: Index, tmp_path: Path) -> None:
    wheels.add("alpha")
    wheels.add("pyyaml", files={"yaml.py": ""})
    told: list[Event] = []
    name = build(tmp_path, needed=["json", "yaml", "alpha", "missing"], told=told)
    assert {path.name for path in layer(tmp_path, name).glob("*.py")} == {"alpha.py", "yaml.py"}
    [warning] = [event for event in told if isinstance(event, Warned)]
    assert "missing" in warning.message
    assert build(tmp_path, needed=["json", "missing"]) == ""
    with pytest.raises(SandrlError, match="no package 'missing'"):
        build(tmp_path, "missing", needed=["alpha"])


def test_what_problems_need_never_takes_away_what_the_user_asks_for(wheels: Index, tmp_path: Path) -> None:
    wheels.add("alpha", "1.0")
    wheels.add("alpha", "2.0")
    wheels.add("beta", requires=["alpha>1"])
    told: list[Event] = []
    name = build(tmp_path, "alpha==1.0", needed=["beta"], told=told)
    assert {path.name for path in layer(tmp_path, name).glob("*.py")} == {"alpha.py"}
    [warning] = [event for event in told if isinstance(event, Warned)]
    assert "problems need beta, which cannot be installed" in warning.message


def test_a_layer_that_was_removed_is_made_again(wheels: Index, tmp_path: Path) -> None:
    wheels.add("alpha")
    name = build(tmp_path, "alpha")
    [entry] = (tmp_path / "cache" / "layers" / "requests").glob("*/*.json")
    assert json.loads(entry.read_text())["layer"] == name
    (tmp_path / "cache" / "layers" / name).rename(tmp_path / "removed")
    assert build(tmp_path, "alpha") == name
    assert (tmp_path / "cache" / "layers" / name / "alpha.py").is_file()


def test_a_layer_that_was_not_used_for_long_is_removed_when_another_one_is_made(wheels: Index, tmp_path: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        wheels.add(name)
    old, used = build(tmp_path, "alpha"), build(tmp_path, "beta")
    store = tmp_path / "cache" / "layers"
    for name in (old, used):
        for place in (store / name, layer(tmp_path, name)):
            os.utime(place, (0, 0))
    assert build(tmp_path, "beta") == used
    new = build(tmp_path, "gamma")
    assert {path.name for path in store.iterdir()} == {used, new, "locks", "requests"}
    assert {path.name for path in layer(tmp_path, new).parent.iterdir()} == {used, new, "prebuilt"}
    assert build(tmp_path, "alpha") == old


def test_packages_of_another_python_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"host:3\.8"):
        build_overlay(["alpha"], (), tmp_path, tmp_path, image="host:3.8", emit=lambda _: None)


def test_a_password_in_the_address_of_an_index_is_in_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Index(tmp_path / "wheels"))
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secret-word@127.0.0.1:9/simple")
    with pytest.raises(ServiceError) as caught:
        build(tmp_path, "alpha")
    assert "secret-word" not in f"{caught.value.message}{caught.value.hint}{caught.value.__cause__}"


def test_a_range_of_versions_that_was_split_at_its_comma_is_one_requirement() -> None:
    read = requirements_of(["numpy>=2", "<3", "requests[socks", "security]"])
    assert [str(each) for each in read] == ["numpy<3,>=2", "requests[security,socks]"]


@pytest.fixture
def with_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheels: Index) -> Index:
    """Of the two tools, only uv is there."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        pytest.skip("not installed: uv")
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "uv").symlink_to(uv)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("UV_DEFAULT_INDEX", (tmp_path / "empty").as_uri())
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels.directory))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setattr(installer, "_pip", lambda: None)
    return wheels


def test_uv_installs_what_pip_would(with_uv: Index, tmp_path: Path) -> None:
    with_uv.add("alpha", requires=["beta>=2"])
    with_uv.add("beta", "2.0")
    found = {path.name for path in layer(tmp_path, build(tmp_path, "alpha")).glob("*.py")}
    assert found == {"alpha.py", "beta.py"}


def test_what_uv_cannot_install_is_one_line_and_nothing_is_built(with_uv: Index, tmp_path: Path) -> None:
    place = tmp_path / "ran"
    archive = hostile(tmp_path, with_uv, place)
    with_uv.add("alpha", requires=[f"hostile @ {archive.as_uri()}"])
    for name in ("hostile", "alpha", "missing"):
        told: list[Event] = []
        with pytest.raises(UsageError, match=name) as caught:
            build(tmp_path, name)
        assert "\n" not in caught.value.message
        assert not place.exists()
        assert build(tmp_path, needed=[name], told=told) == ""
        assert [type(event) for event in told if isinstance(event, Warned)] == [Warned]


def test_without_pip_and_uv_the_way_out_is_named(
    wheels: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installer, "_pip", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="pip or uv") as caught:
        build(tmp_path, "alpha")
    assert caught.value.hint == "install uv"


def test_sandboxes_of_the_service_install_packages_before_their_first_command(
    endpoint: DaemonEndpoint, wheels: Index, tmp_path: Path
) -> None:
    """The service is the local daemon, whose image has no pip, unless it is among the packages that it shows."""
    wheels.add_installed("pip")
    remote = SdkConnection(
        kind=RuntimeKind.REMOTE,
        reason="",
        address=endpoint.base_url,
        image=IMAGE,
        is_local=False,
        token=endpoint.token,
        packages=Packages(("pip",), ("missing-package",)),
        overlay=build(tmp_path, "pip", state=endpoint.state_dir),
    )
    command = Command(("sh", "-c", "cat; exit 3"), stdin=b"text")
    clients = [remote.open(), replace(remote, overlay="").open()]
    try:
        sandbox = clients[0].create(())
        for _ in range(2):
            assert sandbox.run(command).result(60) == Result(3, b"text")
        with pytest.raises(UsageError, match=r"pip cannot be installed in a sandbox: .*No module named pip"):
            clients[1].create(()).run(command).result(60)
    finally:
        for client in clients:
            client.close(30)
