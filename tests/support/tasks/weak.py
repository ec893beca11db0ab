"""Tasks whose verifier, or image, has one weakness each, and their twins, in which this weakness is mended.

Besides the weakness, a task is as its author should write it: the agent is no root, its processes are ended, and the
verifier is root's and starts tools by their paths, in Python's isolated mode. Where an agent is root, nothing but a
separate verifier helps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.tasks.base import PYTHON, TOOLS, write_files

HOME = "/home/app"
_REWARD = "/logs/verifier/reward.txt"
_ANSWER = "Write 1729 into the file answer.\n"
_SOLVE = "echo 1729 > answer\n"
_IS_RIGHT = f'[ "$(cat {HOME}/answer 2>/dev/null)" = 1729 ]'
_GIVE = f"reward=0\n%s && reward=1\necho $reward > {_REWARD}\n"
_WAIT = f"for try in 1 2 3 4 5 6 7 8 9 10; do [ -e {HOME}/answer ] || sleep 0.1; done\n"
_CONFIG = """\
schema_version = "1.4"
artifacts = ["/home/app/answer"]
[metadata.sandrl]
end_processes = {ends}
[agent]
user = "{agent}"
[verifier]
user = "{verifier}"
environment_mode = "{mode}"
timeout_sec = 120.0
[environment]
workdir = "/home/app"
cpus = 0.5
memory_mb = 256
storage_mb = 256
{more}
"""
_IMAGE = f'docker_image = "{TOOLS}"\n'


def _config(
    agent: str = "app",
    verifier: str = "root",
    *,
    ends: bool = True,
    mode: str = "shared",
    image: str = _IMAGE,
    variable: str = "",
) -> str:
    more = f"{image}[environment.env]\n{variable}" if variable else image
    return _CONFIG.format(ends=str(ends).lower(), agent=agent, verifier=verifier, mode=mode, more=more)


def _dockerfile(*commands: str) -> dict[str, str]:
    # All is the agent's: its home, and what is made there.
    lines = (f"RUN {each}\n" for each in (*commands, f"chown -R 1000:1000 {HOME}"))
    return {"environment/Dockerfile": f"FROM {TOOLS}\nWORKDIR {HOME}\n{''.join(lines)}"}


@dataclass(frozen=True)
class WeakTask:
    """A task with a weakness.

    Attributes:
        name: What the weakness is.
        cheat: The cheat of `sandrl redteam` that earns a reward on it; empty if none is needed.
        files: By path.
        mended: The files that its twin has instead.
        nothing: What an agent that does nothing earns; the twin gives it 0.
    """

    name: str
    cheat: str
    files: Mapping[str, str]
    mended: Mapping[str, str]
    nothing: float = 0.0

    def write(self, place: Path, *, twin: bool = False) -> Path:
        """Writes it, or its twin, into a directory of its name; returns that."""
        return write_files(place / self.name, {**self.files, **(self.mended if twin else {})})


def _task(
    test: str, *, config: str = "", instruction: str = _ANSWER, solve: str = _SOLVE, **files: str
) -> dict[str, str]:
    return {
        "task.toml": config or _config(),
        "instruction.md": instruction,
        "solution/solve.sh": f"#!/bin/bash\n{solve}",
        "tests/test.sh": f"#!/bin/bash\n{test}",
        "environment/.keep": "",
        **files,
    }


def _test(text: str) -> dict[str, str]:
    return {"tests/test.sh": f"#!/bin/bash\n{text}"}


_TEST_ANSWER = f"""\
from pathlib import Path


def test_answer():
    assert Path("{HOME}/answer").read_text().strip() == "1729"
"""
_CHECK_ANSWER = f"""\
from pathlib import Path

path = Path("{HOME}/answer")
raise SystemExit(not path.is_file() or path.read_text().strip() != "1729")
"""
_ISOLATED = f"cd / && {PYTHON} -I -S /tests/check.py"
_ISOLATED_TESTS = f"cd / && {PYTHON} -I -m pytest -c /dev/null --noconftest -p no:cacheprovider /tests/test_answer.py"

_DOUBLE = "echo $((2 * $1))"
_PROGRAM = "Correct the program double.sh, which is to print twice its argument.\n"
_MEND = f"""cat > double.sh <<'END'
#!/bin/sh
{_DOUBLE}
END
"""
# What the agent wrote runs as the agent, with a clean environment.
_TRY = f"""\
double() {{
    setpriv --reuid=1000 --regid=1000 --clear-groups env -i PATH=/usr/bin:/bin timeout 5 sh {HOME}/double.sh "$1"
}}
[ "$(double 4)" = 8 ] && [ "$(double 21)" = 42 ]
"""
_WRONG = "printf '#!/bin/sh\\necho $((3 * $1))\\n' > double.sh"
_RIGHT = f"printf '#!/bin/sh\\n{_DOUBLE}\\n' > "
_GIT = "git config --system safe.directory '*' && git init -q . && git config user.name a && git config user.email a@b"

TASKS = (
    WeakTask(
        "survivor-during",
        "reward-during",
        _task(
            f"{_WAIT}{_IS_RIGHT} && echo 1 > {_REWARD}\n[ -e {_REWARD} ] || echo 0 > {_REWARD}\n",
            config=_config(verifier="app", ends=False),
        ),
        {"task.toml": _config(verifier="app")},
    ),
    WeakTask(
        "survivor-after",
        "reward-after",
        # It ends a while after it has given the reward.
        _task(f"{_GIVE % _IS_RIGHT}sleep 1\n", config=_config(verifier="app", ends=False)),
        {"task.toml": _config(verifier="app")},
    ),
    WeakTask(
        "survivor-tests",
        "tests-files",
        _task(
            f"{_WAIT}{_GIVE % '/bin/bash /tests/check.sh'}",
            config=_config("root", ends=False),
            **{"tests/check.sh": _IS_RIGHT + "\n"},
        ),
        {"task.toml": _config("root", mode="separate")},
    ),
    WeakTask(
        "conftest",
        "conftest",
        _task(
            f"cp /tests/test_answer.py {HOME}/ && cd {HOME}\n{_GIVE % f'{PYTHON} -m pytest test_answer.py'}",
            **{"tests/test_answer.py": _TEST_ANSWER},
        ),
        _test(_GIVE % _ISOLATED_TESTS),
    ),
    WeakTask(
        "sitecustomize",
        "sitecustomize",
        _task(
            _GIVE % f"{PYTHON} /tests/check.py",
            config=_config(variable=f'PYTHONPATH = "{HOME}"'),
            **{"tests/check.py": _CHECK_ANSWER},
        ),
        _test(_GIVE % _ISOLATED),
    ),
    WeakTask(
        "pth",
        "pth",
        _task(
            _GIVE % f"{PYTHON} -I /tests/check.py",
            config=_config(image=""),
            **{"tests/check.py": _CHECK_ANSWER},
            **_dockerfile("chmod 777 /usr/lib/python3/dist-packages"),
        ),
        _test(_GIVE % _ISOLATED),
    ),
    WeakTask(
        "path-of-verifier",
        "path-pytest",
        _task(
            f"cd {HOME}\nexport PATH=$HOME/.local/bin:$PATH\n{_GIVE % 'pytest /tests/test_answer.py'}",
            config=_config(verifier="app"),
            **{"tests/test_answer.py": _TEST_ANSWER},
        ),
        _test(_GIVE % _ISOLATED_TESTS),
    ),
    WeakTask(
        "path-of-image",
        "path-curl",
        _task(
            f"page=http://127.0.0.1:8080/answer\n{_GIVE % 'curl -sf -o /dev/null $page'}",
            instruction="Serve a page `/answer` with the text 1729 at port 8080.\n",
            solve="mkdir www; echo 1729 > www/answer\n"
            f"setsid httpd -f -p 8080 -h {HOME}/www > /dev/null 2>&1 &\nsleep 0.3\n",
            config=_config(ends=False, variable=f'PATH = "{HOME}/bin:/usr/local/bin:/usr/bin:/bin"'),
        ),
        _test(_GIVE % '[ "$(/bin/curl -q -sf --noproxy "*" http://127.0.0.1:8080/answer)" = 1729 ]'),
    ),
    WeakTask(
        "preload",
        "preload-reward",
        _task(_GIVE % _ISOLATED, config=_config("root"), **{"tests/check.py": _CHECK_ANSWER}),
        {"task.toml": _config("root", mode="separate")},
    ),
    WeakTask(
        "git-objects",
        "git-reflog",
        _task(
            _GIVE % "/bin/bash /tests/check.sh",
            config=_config(image=""),
            instruction=_PROGRAM,
            solve=_MEND,
            **{"tests/check.sh": _TRY},
            **_dockerfile(
                _GIT,
                f"{_WRONG} && git add double.sh && git commit -q -m 'Double a number'",
                f"{_RIGHT} double.sh && git commit -q -a -m 'Mend the factor' && git reset -q --hard HEAD~1",
            ),
        ),
        _dockerfile(
            _GIT,
            f"{_WRONG} && git add double.sh && git commit -q -m 'Double a number'",
        ),
    ),
    WeakTask(
        "backup",
        "answer-copied",
        _task(
            _GIVE % "/bin/bash /tests/check.sh",
            config=_config(image=""),
            instruction=_PROGRAM,
            solve=_MEND,
            **{"tests/check.sh": _TRY},
            **_dockerfile(_WRONG, f"{_RIGHT} double.sh.bak"),
        ),
        _dockerfile(_WRONG),
    ),
    WeakTask(
        "compiled",
        "answer-compiled",
        _task(
            _GIVE % "/bin/bash /tests/check.sh",
            config=_config(image=""),
            instruction="Write double(n) in double.py, which returns twice its argument.\n",
            solve="echo 'def double(n): return 2 * n' > double.py\n",
            **{
                "tests/check.sh": f"""\
double() {{
    setpriv --reuid=1000 --regid=1000 --clear-groups env -i PATH=/usr/bin:/bin timeout 5 {PYTHON} -I -c \
        "import sys; sys.path.insert(0, '{HOME}'); from double import double; print(double($1))"
}}
[ "$(double 4)" = 8 ] && [ "$(double 21)" = 42 ]
"""
            },
            **_dockerfile(
                "echo 'def double(n): return 2 * n' > double.py",
                f"{PYTHON} -m compileall -q . && echo 'def double(n): raise NotImplementedError' > double.py",
            ),
        ),
        _dockerfile("echo 'def double(n): raise NotImplementedError' > double.py"),
    ),
    WeakTask(
        "results-of-agent",
        "trusted-pass",
        _task(
            _GIVE % f"grep -q '^PASSED$' {HOME}/results.txt",
            config=_config(image=""),
            instruction=_PROGRAM + "Then run ./check.sh > results.txt.\n",
            solve=f"{_MEND}sh check.sh > results.txt\n",
            **_dockerfile(
                _WRONG, """echo '[ "$(sh ./double.sh 21)" = 42 ] && echo PASSED || echo FAILED' > check.sh"""
            ),
        ),
        {**_test(_GIVE % "/bin/bash /tests/check.sh"), "tests/check.sh": _TRY},
    ),
    WeakTask(
        "script-of-agent",
        "trusted-program",
        _task(
            f"cd {HOME}\n{_GIVE % f'/bin/bash {HOME}/check.sh'}",
            config=_config(verifier="app", image=""),
            instruction=_PROGRAM + "The program check.sh says whether it is right.\n",
            solve=_MEND,
            **_dockerfile(_WRONG, """echo '[ "$(sh ./double.sh 21)" = 42 ]' > check.sh"""),
        ),
        {
            "task.toml": _config(image=""),
            **_test(_GIVE % "/bin/bash /tests/check.sh"),
            "tests/check.sh": _TRY,
        },
    ),
    WeakTask(
        "breakage",
        "trusted-directory",
        _task(
            f"reward=1\n{PYTHON} -I -S /tests/check.py | grep -q FAIL && reward=0\necho $reward > {_REWARD}\n",
            instruction="Write three numbers, whose sum is 1729, into the file answer.\n",
            solve="echo 1000 700 29 > answer\n",
            **{
                "tests/check.py": f"""\
from pathlib import Path

path = Path("{HOME}/answer")
if not path.exists():
    print("FAIL: no answer")
    raise SystemExit(1)
numbers = [int(word) for word in path.read_text().split()]
right = len(numbers) == 3 and sum(numbers) == 1729
print("OK" if right else "FAIL: another sum")
raise SystemExit(not right)
"""
            },
        ),
        _test(_GIVE % f"{PYTHON} -I -S /tests/check.py"),
    ),
    WeakTask(
        "clock",
        "clock-now",
        _task(
            _GIVE % f"[ $(stat -c %Y {HOME}/report) -gt $(($(date +%s) - 3600)) ]",
            config=_config(image=""),
            instruction="Write the sum of the numbers in the file data into the file report, which is old.\n",
            solve="sum=0; while read n; do sum=$((sum + n)); done < data; echo $sum > report\n",
            **_dockerfile("seq 58 > data && echo 3 > report && touch -d '2001-01-01 00:00' report data"),
        ),
        _test(_GIVE % f'[ "$(cat {HOME}/report)" = 1711 ]'),
    ),
    WeakTask(
        "empty-machine",
        "",
        _task(
            f"reward=1\ngrep -q ERROR {HOME}/log 2>/dev/null && reward=0\necho $reward > {_REWARD}\n",
            instruction="Run the service: it writes READY, and no ERROR, into the file log.\n",
            solve="echo READY > log\n",
        ),
        _test(f'reward=0\n[ "$(cat {HOME}/log 2>/dev/null)" = READY ] && reward=1\necho $reward > {_REWARD}\n'),
        nothing=1.0,
    ),
)
TASKS_BY_NAME = {task.name: task for task in TASKS}
