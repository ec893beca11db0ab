"""`task.toml` is read as Harbor reads it: what Harbor refuses is refused, and every value is the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from pydantic import BaseModel

from sandrl.errors import InputError
from sandrl.problems.tasks.harbor_config import read_harbor_config

pytestmark = pytest.mark.slow

HARBOR = os.environ.get("SANDRL_TEST_HARBOR", "")
COUNT = 6000
ORACLE = """
import json, sys, warnings
warnings.simplefilter("ignore")
from harbor.models.task.config import TaskConfig
for text in json.load(sys.stdin):
    try:
        found = TaskConfig.model_validate_toml(text).model_dump(mode="json")
    except Exception as error:
        found = None
    print(json.dumps(found))
"""

TEXTS: list[Any] = ["", "a", "${A}", "${A:-b}", "é\n", "/srv", "../x", 3, True, [], {}, 1.5]
NUMBERS: list[Any] = [0, 1, 2, 2.0, 2.5, -1, "3", "2.5", "x", True, float("inf"), float("nan"), [], "1e3"]
HOSTS: list[Any] = [
    *(
        "example.com",
        " Example.COM. ",
        "*.example.com",
        "*.1.2.3.4",
        "*",
        "a.*.b",
        "10.0.0.1",
        "10.0.0.0/8",
        "10.0.0.1/8",
    ),
    *(
        "::1",
        "2001:DB8::/32",
        "2001:0db8::1",
        "[::1]",
        "fe80::1%eth0",
        "http://a",
        "a:80",
        "a/b",
        "",
        ".",
        "a_b",
        "-a.b",
        3,
    ),
    *("a" * 64 + ".com", "*.", "1.2.3", "a..b", "xn--e1afmkfd.example", "::ffff:1.2.3.4", "0x7f.1", "1.2.3.4."),
]
SIZES: list[Any] = ["2G", "512M", "1.5g", " 100k ", "2GB", "G", "", "infG", "nanM", 2048, 2, True, "1e1M", "-1G"]
NETWORKS: list[Any] = ["public", "no-network", "allowlist", "none", "", "PUBLIC", 1, True]
USERS: list[Any] = ["agent", "1000", 1000, 0, True, 1.5, [], "", "a b"]
SERVICES: list[Any] = ["main", " main ", "db", "db-1", "", "-x", "a b", 3]
STEP_NAMES: list[Any] = [
    *(
        "one",
        "One",
        "two",
        "a/b",
        "..",
        ".",
        "",
        " ",
        "CON",
        "con.txt",
        "a.",
        "a ",
        "é",
        "e\u0301",
        "x" * 256,
        "a:b",
        "LPT1",
    ),
    *("x\n", "step 1", "COM¹", 3),
]
HEADERS: list[Any] = [
    *(
        "Bearer ${T}",
        "${T}",
        "token",
        "${T:-x}",
        "${T:-}",
        "Basic ${A}:${B}",
        "",
        " ",
        "$T",
        "${1}",
        "${T:-${U}}",
        "a\nb",
    ),
    *("Bearer ${T} x", 3),
]


class Maker:
    """Tables with right, strange and wrong values; the first of the choices are the most probable."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def table(self) -> dict[str, Any]:
        steps = self._some(lambda: [self._step() for _ in range(self._random.randint(0, 3))], 0.4)
        return self._of(
            version=lambda: self._pick(["1.0", "1.4", "2", 1.0, ""]),
            schema_version=lambda: self._pick(["1.1", "1.3", 1]),
            task=self._package,
            metadata=lambda: self._pick([{"a": [1, {"b": 2}]}, {"sandrl": {"end_processes": True}}, [], "x"]),
            verifier=self._verifier,
            agent=lambda: self._phase(timeout_sec=lambda: self._pick(NUMBERS), user=lambda: self._pick(USERS)),
            environment=self._environment,
            solution=lambda: self._of(env=self._env),
            source=lambda: self._pick(["a/b", 3]),
            multi_step_reward_strategy=lambda: self._pick(["mean", "final", "sum"]),
            steps=lambda: steps,
            artifacts=self._artifacts,
            unknown=lambda: self._pick([1, {"x": 2}]),
        )

    def _pick(self, choices: list[Any]) -> Any:
        # Half of the values are one of the first three, which are right in most lists.
        return self._random.choice(choices[:3] if self._random.random() < 0.6 else choices)

    def _some(self, make: Any, chance: float) -> Any:
        return make() if self._random.random() < chance else None

    def _of(self, **makers: Any) -> dict[str, Any]:
        found = {name: self._some(make, 0.25) for name, make in makers.items()}
        return {name: value for name, value in found.items() if value is not None}

    def _env(self) -> Any:
        return self._pick([{"A": "1"}, {"A": "${A:-x}", "B": ""}, {}, {"A": 1}, []])

    def _phase(self, **more: Any) -> dict[str, Any]:
        return self._of(
            network_mode=lambda: self._pick(NETWORKS),
            allowed_hosts=lambda: [self._pick(HOSTS) for _ in range(self._random.randint(0, 2))],
            **more,
        )

    def _package(self) -> dict[str, Any]:
        names = ["a/b", "org/name-1", "A.b/c_d", "a", "a/b/c", "../x", "a/b..c", ".a/b", 3]
        return {
            "name": self._pick(names),
            **self._of(
                version=lambda: self._pick(["1.0", "x", "2"]) if self._random.random() < 0.8 else "",
                description=lambda: self._pick(TEXTS),
                authors=lambda: self._pick([[{"name": "a"}], [{"name": "a", "email": "b"}], [], [{}], ["a"]]),
                keywords=lambda: self._pick([["a"], [], ["a", "b"], [1], "a"]),
            ),
        }

    def _environment(self) -> dict[str, Any]:
        return self._phase(
            build_timeout_sec=lambda: self._pick(NUMBERS),
            docker_image=lambda: self._pick(TEXTS),
            os=lambda: self._pick(["linux", "Linux", "windows", "WINDOWS", "mac", 1]),
            cpus=lambda: self._pick([1, 2.0, 2.5, *NUMBERS]),
            memory_mb=lambda: self._pick(NUMBERS),
            storage_mb=lambda: self._pick(NUMBERS),
            memory=lambda: self._pick(SIZES),
            storage=lambda: self._pick(SIZES),
            gpus=lambda: self._pick(NUMBERS),
            gpu_types=lambda: self._pick([["H100"], [], ["A", "B"], "H100", [1]]),
            tpu=lambda: (
                self._pick([{"type": "v6e", "topology": " 2x4 "}, {"type": "a", "topology": "2x2x1"}, {}])
                if self._random.random() < 0.7
                else self._pick([{"type": "", "topology": "2x4"}, {"type": "a", "topology": "0x4"}, {"type": "a"}])
            ),
            mcp_servers=lambda: [self._server() for _ in range(self._random.randint(0, 2))],
            env=self._env,
            skills_dir=lambda: self._pick(TEXTS),
            healthcheck=self._healthcheck,
            workdir=lambda: self._pick(TEXTS),
            allow_internet=lambda: self._pick([True, False, True, "true", "x", 1, 0, 2]),
        )

    def _server(self) -> dict[str, Any]:
        return {
            "name": self._pick(["a", "b", "c", 1]),
            **self._of(
                transport=lambda: self._pick(["stdio", "http", "sse", "streamable-http", "x", 1]),
                command=lambda: self._pick(TEXTS),
                args=lambda: self._pick([["a"], [], ["a", "b"], [1], "a"]),
            ),
            **({"url": self._pick(["http://a", "x", "y", "", 3])} if self._random.random() < 0.7 else {}),
            **self._of(
                headers=lambda: {
                    self._pick(["Authorization", "X-Note", "Cookie", "X-Tokens", "X-Token", "a b", ""]): self._pick(
                        HEADERS
                    )
                }
            ),
        }

    def _healthcheck(self) -> dict[str, Any]:
        numbers = ("interval_sec", "timeout_sec", "start_period_sec", "start_interval_sec", "retries")
        made = self._of(**{name: lambda: self._pick(NUMBERS) for name in numbers})
        return {"command": "true", **made} if self._random.random() < 0.9 else made

    def _verifier(self) -> dict[str, Any]:
        return self._phase(
            timeout_sec=lambda: self._pick(NUMBERS),
            env=self._env,
            user=lambda: self._pick(USERS),
            environment_mode=lambda: self._pick(["separate", "shared", "separate", "SHARED", "x", 1]),
            environment=self._environment,
            collect=lambda: [
                {
                    "command": "true",
                    **self._of(
                        service=lambda: self._pick(SERVICES),
                        timeout_sec=lambda: self._pick(NUMBERS),
                        user=lambda: self._pick(USERS),
                    ),
                }
                for _ in range(self._random.randint(0, 2))
            ],
        )

    def _artifacts(self) -> list[Any]:
        return [self._artifact() for _ in range(self._random.randint(0, 2))]

    def _artifact(self) -> Any:
        source = self._pick(["/app/x", "out", "/logs/artifacts", "../x", "/a/../b", "", "a/..b", "C:/x", 3])
        if self._random.random() < 0.4:
            return source
        destinations = [
            "x",
            "a/b",
            "",
            "/x",
            "../x",
            "a\\b",
            ".",
            "manifest.json",
            "manifest.json/",
            "a/../b",
            "./x",
            3,
        ]
        return {
            "source": source,
            **self._of(
                destination=lambda: self._pick(destinations),
                exclude=lambda: self._pick([["*.o"], [], ["a", "b"], "a", [1]]),
                service=lambda: self._pick(SERVICES),
            ),
        }

    def _step(self) -> dict[str, Any]:
        return {
            "name": self._pick(STEP_NAMES[:3] * 3 + STEP_NAMES),
            **self._of(
                agent=lambda: self._phase(timeout_sec=lambda: self._pick(NUMBERS), user=lambda: self._pick(USERS)),
                verifier=self._verifier,
                min_reward=lambda: self._pick(
                    [1, 0.5, {"a": 1}, {"a": "1"}, {"a": "x"}, {}, "0.5", True, [], float("nan")]
                ),
                healthcheck=self._healthcheck,
                artifacts=self._artifacts,
            ),
        }


def texts() -> Iterator[str]:
    """Texts of which about a half is right."""
    for seed in range(COUNT):
        yield tomli_w.dumps(Maker(seed).table())
    yield from (
        "",
        "a = ",
        "[environment]\nmemory = '2G'\nmemory_mb = 2048\n",
        "[environment]\nallow_internet = false\n",
    )
    yield from ("[task]\n", "[[steps]]\n", "steps = []\n", "metadata = 2026-01-01\n", "[metadata]\na = 2026-01-01\n")


def said(value: Any) -> Any:
    """The values of a model, without the fields that Harbor does not have."""
    if isinstance(value, BaseModel):
        names = type(value).model_fields.keys() - {"allow_internet"}
        return {name: said(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: said(each) for name, each in value.items()}
    return list(map(said, value)) if isinstance(value, list) else value


def plain(value: Any, name: str = "") -> Any:
    """What Harbor has, with artifacts as tables, and with headers where it leaves out empty ones."""
    if isinstance(value, dict):
        made = {key: plain(each, key) for key, each in value.items()}
        return made | ({"headers": {}} if "transport" in made and "headers" not in made else {})
    if isinstance(value, list):
        return [
            {"source": each, "destination": None, "exclude": [], "service": None}
            if name == "artifacts" and isinstance(each, str)
            else plain(each)
            for each in value
        ]
    return value


def values_of(text: str) -> str | None:
    """All values that sandrl reads, as JSON; None if it refuses the text."""
    try:
        found = said(read_harbor_config(text))
    except InputError:
        return None
    return json.dumps(json.loads(json.dumps(found, default=str)), sort_keys=True)


@pytest.mark.skipif(not HARBOR, reason="SANDRL_TEST_HARBOR names no harbor (0.25 with cwsandbox, on Python 3.12)")
def test_what_harbor_refuses_is_refused_and_all_values_are_the_same() -> None:
    made = list(texts())
    python = Path(HARBOR).with_name("python")
    command = [str(python), "-c", ORACLE]
    asked = subprocess.run(command, input=json.dumps(made), capture_output=True, text=True, check=True, timeout=300)
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    assert len(answers) == len(made)
    accepted = 0
    for text, answer in zip(made, answers, strict=True):
        ours = values_of(text)
        accepted += ours is not None
        assert ours == (None if answer is None else json.dumps(plain(answer), sort_keys=True)), text
    assert accepted > len(made) / 10
