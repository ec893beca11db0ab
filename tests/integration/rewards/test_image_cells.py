"""Completions judged with the Python of an image, in cells of a worker sandbox that starts from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sandrl.errors import InfrastructureError
from sandrl.events.results import Isolation, Status, Trust
from sandrl.problems import Completion, Problem
from sandrl.rewards import ScoreOptions, score
from sandrl.runtime.host.images import find_images
from sandrl.sandboxes import Job, connect, new_job_id
from sandrl.settings import RuntimeKind, Settings
from tests.support.image_trees import import_tree, make_busybox_tree, make_python_tree

INC = Problem("inc", "Add one.", tests=("assert f(1) == 2", "assert f(2) == 3"))
RIGHT = "def f(x):\n    return x + 1\n"
UNCACHED = ScoreOptions(caching=False)
VERSIONS = [image.name for image in find_images()]
ATTACKS = {
    "reads the judge": (
        "import os\ndef f(x):\n    for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "        for name in ('mem', 'environ', 'fd/0'):\n            try: open(f'/proc/{pid}/{name}').read(9)\n"
        "            except (OSError, ValueError): continue\n            if int(pid) != os.getpid(): return x + 1\n"
    ),
    "changes the image": "def f(x):\n    open('/usr/lib/changed', 'w')\n    return x + 1\n",
    "becomes user 0": "import os\ndef f(x):\n    os.setuid(0)\n    return x + 1\n",
    "uses a setuid program": (
        "import subprocess\ndef f(x):\n"
        "    subprocess.run(['su', '-c', 'true'], stdin=-3, check=True)\n    return x + 1\n"
    ),
    "makes a namespace": (
        "import ctypes\ndef f(x):\n    assert ctypes.CDLL(None).unshare(0x10000000) == 0\n    return x + 1\n"
    ),
}


def with_package(place: Path) -> None:
    make_python_tree(place)
    package = next(place.glob("usr/lib/python3*")).parent / "python3/dist-packages"
    package.mkdir(parents=True)
    (package / "of_image.py").write_text("ONE = 1\n")
    (place / "bin/su").unlink()
    (place / "bin/su").write_bytes((place / "bin/busybox").read_bytes())
    (place / "bin/su").chmod(0o4755)


def judged(
    settings: Settings, image: str, *codes: str, has_cells: bool = True, problem: Problem = INC
) -> list[tuple[object, ...]]:
    connection = connect(settings, runtime=RuntimeKind.LOCAL, image=image)
    completions = [Completion(str(number), "inc", code=code) for number, code in enumerate(codes)]
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=120, has_cells=has_cells) as job:
        results = score(completions, {"inc": problem}, job=job, options=UNCACHED).results
    return [(result.reward, result.status, result.trust, result.isolation) for result in results]


def test_packages_of_an_image_are_there_and_cells_have_its_python(settings: Settings, has_cells: bool) -> None:
    image = import_tree("tests/python:package", with_package)
    codes = f"from of_image import ONE\nimport sys\nassert sys.prefix == '/usr'\n{RIGHT}", RIGHT.replace("1", "2")
    kind = Isolation.CELL if has_cells else Isolation.SANDBOX
    assert judged(settings, image, *codes, has_cells=has_cells) == [
        (1.0, Status.PASSED, Trust.ISOLATED, kind),
        (0.0, Status.FAILED, Trust.ISOLATED, kind),
    ]


def test_no_completion_gets_more_from_an_image_than_from_the_hosts_system(settings: Settings, has_cells: bool) -> None:
    image = import_tree("tests/python:package", with_package)
    names = [name for name in ATTACKS if has_cells or name in ("reads the judge", "makes a namespace")]
    results = judged(settings, image, *map(ATTACKS.__getitem__, names), has_cells=has_cells)
    assert dict(zip(names, (result[0] for result in results), strict=True)) == dict.fromkeys(names, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_of_this_machine_holds_cells_as_an_image(settings: Settings, version: str) -> None:
    executable = next(image.executable for image in find_images() if image.name == version)
    image = import_tree(f"tests/python:{version}", lambda place: make_python_tree(place, executable))
    codes = f"import sys\nassert '%d.%d' % sys.version_info[:2] == '{version}'\n{RIGHT}", "def f(x):\n    return x\n"
    results = judged(settings, image, *codes)
    assert [(result[0], result[3]) for result in results] == [(1.0, Isolation.CELL), (0.0, Isolation.CELL)]


@pytest.mark.parametrize("asks_reference", [False, True], ids=["completion", "reference"])
def test_an_image_without_python_is_one_error_that_blames_no_completion(
    settings: Settings, asks_reference: bool
) -> None:
    image = import_tree("tests/busybox:1", make_busybox_tree)
    problem = replace(INC, reference=RIGHT, tests=("import enum\nassert f(1) == 2",)) if asks_reference else INC
    with pytest.raises(InfrastructureError, match=f"image {image}.* cannot judge completions: .*python3") as raised:
        judged(settings, image, *[RIGHT] * 5, problem=problem)
    assert "Python 3.8" in str(raised.value.hint)


def without(pattern: str) -> Callable[[Path], None]:
    """Makes a tree with a Python from which what fits a pattern is missing."""

    def make(place: Path) -> None:
        make_python_tree(place)
        (path,) = place.glob(pattern)
        path.unlink()

    return make


def test_an_image_without_env_is_one_error(settings: Settings) -> None:
    image = import_tree("tests/python:without-env", without("bin/env"))
    with pytest.raises(InfrastructureError, match=f'image {image}.* cannot judge completions: .*"env"'):
        judged(settings, image, RIGHT)


def test_an_image_without_ctypes_has_a_fresh_sandbox_for_each_completion(settings: Settings) -> None:
    image = import_tree("tests/python:without-ctypes", without("usr/lib/python3*/lib-dynload/_ctypes.*"))
    results = judged(settings, image, RIGHT, "def f(x):\n    return x\n")
    assert [(result[0], result[3]) for result in results] == [(1.0, Isolation.SANDBOX), (0.0, Isolation.SANDBOX)]
