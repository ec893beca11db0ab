"""Tasks of Harbor's format, each with an oracle and another part of the format; `../shared` has none with an oracle.

Each says what its verifier writes for the oracle and for an agent that does nothing, as Harbor 0.25 reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.tasks.base import BASE, write_files

# Named numbers of a verifier, or None where it leaves none that is valid.
Numbers = Mapping[str, float] | None
_RIGHT: Numbers = {"reward": 1.0}
_WRONG: Numbers = {"reward": 0.0}


@dataclass(frozen=True)
class HarborTask:
    """A task, and what is right for it.

    Attributes:
        files: By path. One `environment/Dockerfile` or `tests/Dockerfile` may begin with `FROM BASE`.
        oracle: What its verifier says of its solution.
        nothing: What its verifier says of an agent that does nothing.
        apart: Why Harbor's environment for `cwsandbox` cannot be compared on it; empty if it can.
    """

    name: str
    files: Mapping[str, str]
    oracle: Numbers = field(default_factory=lambda: _RIGHT)
    nothing: Numbers = field(default_factory=lambda: _WRONG)
    apart: str = ""

    def write(self, place: Path) -> Path:
        """Writes it into a directory of its name; returns that."""
        files = {name: text.replace("BASE", BASE) for name, text in self.files.items()}
        if not any(name.startswith("environment/") for name in files):
            files["environment/.keep"] = ""
        return write_files(place / self.name, files)


def reward_of(numbers: Mapping[str, float]) -> float:
    """The reward that named numbers are: `reward`, else the mean of all."""
    return numbers["reward"] if "reward" in numbers else sum(numbers.values()) / len(numbers)


def _bash(text: str) -> str:
    return "#!/bin/bash\n" + text


_DOCKERFILE = "FROM BASE\nRUN mkdir -p /app && chmod 777 /app\nWORKDIR /app\n"
# Reward 1 where a condition of the shell holds, else 0.
_JUDGE = "then reward=1; else reward=0; fi\necho $reward > /logs/verifier/reward.txt\n"


def _task(instruction: str, config: str, solve: str, test: str, dockerfile: str = _DOCKERFILE) -> dict[str, str]:
    files = {
        "instruction.md": instruction,
        "task.toml": config,
        "solution/solve.sh": _bash(solve),
        "tests/test.sh": _bash(test),
    }
    return files | ({"environment/Dockerfile": dockerfile} if dockerfile else {})


_CTRF = r"""
tests=
check() {
    if [ "$2" = "$3" ]; then status=passed message=; else status=failed message="it is '$2' and not '$3'"; all=0; fi
    tests="$tests${tests:+,}{\"name\": \"$1\", \"status\": \"$status\", \"duration\": 3, \"message\": \"$message\"}"
}
all=1
check "the sum" "$(cat sum 2>/dev/null)" 5
check "the product" "$(cat product 2>/dev/null)" 6
check "the input" "$(cat input)" "2 3"
echo "{\"results\": {\"tool\": {\"name\": \"bash\"}, \"summary\": {}, \"tests\": [$tests]}}" > /logs/verifier/ctrf.json
echo $all > /logs/verifier/reward.txt
"""

_JUNIT = r"""
if [ "$(cat answer 2>/dev/null)" = 42 ]; then reward=1 failure=; else
    reward=0 failure='<failure message="no answer">expected 42</failure>'
fi
cat > /logs/verifier/junit.xml <<END
<testsuites><testsuite name="tests" tests="2">
<testcase classname="tests.answer" name="is right">$failure</testcase>
<testcase classname="tests.answer" name="is cheap"><skipped message="not measured"/></testcase>
</testsuite></testsuites>
END
echo $reward > /logs/verifier/reward.txt
"""

_SEPARATE = """
[verifier]
environment_mode = "separate"
[[artifacts]]
source = "/app/out"
destination = "result"
exclude = ["*.tmp"]
"""

TASKS = (
    HarborTask(
        "text",
        _task(
            "Write the word `done` into /app/answer.",
            'version = "1.0"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n[environment]\ncpus = 1\n'
            'memory = "256M"\nstorage = "1G"\n',
            "echo done > /app/answer\n",
            'if [ "$(cat /app/answer)" = done ]; ' + _JUDGE,
        ),
    ),
    HarborTask(
        "number",
        _task(
            "Write three letters into the file letters.",
            'schema_version = "1.1"\n',
            "echo abc > letters\n",
            "echo 0 > /logs/verifier/reward.txt\n[ -e letters ] && n=0.75 || n=0.25\n"
            "echo $n > /logs/verifier/reward.json\n",
        ),
        {"reward": 0.75},
        {"reward": 0.25},
        "its reward.json is one number, which Harbor 0.25 reads, but cannot keep",
    ),
    HarborTask(
        "names",
        _task(
            "Sort the words of the file words into the file sorted.",
            'schema_version = "1.2"\n[task]\nname = "tests/names"\nversion = "3"\n[metadata]\nlevel = "easy"\n',
            "sort words > sorted\n",
            "echo 0 > /logs/verifier/reward.txt\n"
            '[ "$(echo $(cat sorted 2>/dev/null))" = "a b c" ] && right=1 || right=0\n'
            'echo "{\\"right\\": $right, \\"short\\": 0.5}" > /logs/verifier/reward.json\n',
            _DOCKERFILE + "COPY words ./\n",
        )
        | {"environment/words": "c\na\nb\n"},
        {"right": 1.0, "short": 0.5},
        {"right": 0.0, "short": 0.5},
    ),
    HarborTask(
        "ctrf",
        _task(
            "Write the sum of the numbers in the file input into the file sum, their product into the file product.",
            'schema_version = "1.3"\n',
            "read a b < input; echo $((a + b)) > sum; echo $((a * b)) > product\n",
            _CTRF,
            _DOCKERFILE + "RUN echo 2 3 > input\n",
        ),
    ),
    HarborTask(
        "junit",
        _task("Write 42 into the file answer.", 'schema_version = "1.4"\n', "echo 42 > answer\n", _JUNIT),
    ),
    HarborTask(
        "separate-image",
        {
            **_task(
                "Write the numbers from 1 to 3 into the file out/numbers, and `ready` into /logs/artifacts/state.",
                'schema_version = "1.4"\n' + _SEPARATE,
                "mkdir -p out; seq 3 > out/numbers; echo x > out/more.tmp; echo ready > /logs/artifacts/state\n",
                "",
            ),
            "tests/Dockerfile": "FROM BASE\nCOPY . /tests\nRUN chmod 755 /tests/test.sh && echo 1 2 3 > /expected\n",
            "tests/test.sh": _bash(
                'if [ "$(echo $(cat /app/out/numbers))" = "$(cat /expected)" ] && [ ! -e /app/out/more.tmp ] \\\n'
                '        && [ "$(cat /logs/artifacts/state)" = ready ]; ' + _JUDGE
            ),
        },
    ),
    HarborTask(
        "separate-copy",
        _task(
            "Keep the state of the service in /run/service/state, as the word `open`.",
            'schema_version = "1.4"\nartifacts = ["/app/kept"]\n[verifier]\nenvironment_mode = "separate"\n'
            '[[verifier.collect]]\ncommand = "mkdir -p /app/kept && cp /run/service/state /app/kept/"\n'
            "timeout_sec = 20\n",
            "mkdir -p /run/service; echo open > /run/service/state; echo x > /app/scratch\n",
            'if [ "$(cat /app/kept/state)" = open ] && [ ! -e /run/service ] && [ ! -e /app/scratch ] \\\n'
            "        && [ -e /app/of-image ]; " + _JUDGE,
            _DOCKERFILE + "RUN touch of-image\n",
        ),
    ),
    HarborTask(
        "healthcheck",
        _task(
            "Copy the file /app/ready to /app/copy.",
            'schema_version = "1.4"\n[environment.healthcheck]\ninterval_sec = 0.2\nretries = 2\n'
            "start_period_sec = 30.0\nstart_interval_sec = 0.2\n"
            'command = "echo >> /app/tries; [ $(wc -l < /app/tries) -ge 4 ] && touch /app/ready"\n',
            "cp ready copy\n",
            "if [ -e copy ] && [ $(wc -l < tries) = 4 ]; " + _JUDGE,
        ),
    ),
    HarborTask(
        "users",
        _task(
            "Write your user id into the file answer.",
            'schema_version = "1.4"\n[agent]\nuser = "app"\n[verifier]\nuser = "root"\n',
            "id -u > answer; echo $(id -u) > /root/denied; echo changed > /app/of-root; true\n",
            'if [ "$(cat answer) $(stat -c %u answer) $(id -u)" = "1000 1000 0" ] && [ ! -e /root/denied ] \\\n'
            '        && [ "$(cat of-root)" = kept ]; ' + _JUDGE,
            _DOCKERFILE + "RUN echo kept > of-root && chmod 644 of-root\n",
        ),
    ),
    HarborTask(
        "numeric-users",
        _task(
            "Write your user id into the file answer.",
            'schema_version = "1.4"\n[agent]\nuser = 1000\n[verifier]\nuser = 1000\n',
            "id -u > answer\n",
            'if [ "$(cat answer) $(id -u)" = "1000 1000" ]; ' + _JUDGE,
        ),
    ),
    HarborTask(
        "variables",
        _task(
            "Write what the variables FIRST and SECOND say into the file answer.",
            'schema_version = "1.4"\n[environment.env]\nFIRST = "a b"\nSECOND = "${SANDRL_NOT_SET:-it\'s $c}"\n'
            '[verifier.env]\nEXPECTED = "${SANDRL_NOT_SET:-a b/it\'s $c/last}"\n'
            '[solution.env]\nLAST = "last"\n',
            'echo "$FIRST/$SECOND/$LAST" > answer\n',
            '[ -n "$LAST" ] && exit 1\nif [ "$(cat answer)" = "$EXPECTED" ] && [ "$FIRST" = "a b" ]; ' + _JUDGE,
        ),
    ),
    HarborTask(
        "steps-mean",
        {
            "task.toml": 'schema_version = "1.4"\n[[steps]]\nname = "first"\n[[steps]]\nname = "second"\n'
            '[steps.agent]\nuser = "app"\n[steps.verifier.env]\nWANTED = "two"\n',
            "environment/Dockerfile": _DOCKERFILE,
            "tests/judge.sh": 'if [ "$(cat /app/answer)" = "$1" ]; ' + _JUDGE,
            "steps/first/instruction.md": "Write `one` into the file answer.",
            "steps/first/tests/test.sh": _bash("touch /tests/of-first; . /tests/judge.sh one\n"),
            "steps/first/solution/solve.sh": _bash("echo one > answer; chmod 666 answer\n"),
            "steps/second/instruction.md": "Write what the file hint says into the file answer.",
            "steps/second/workdir/setup.sh": "cat template > hint; id -un >> hint\n",
            "steps/second/workdir/template": "two\n",
            "steps/second/tests/test.sh": _bash(
                '[ -e /tests/of-first ] || [ "$(tail -n 1 hint)" != app ] && exit 1\n. /tests/judge.sh $WANTED\n'
                'echo "{\\"reward\\": 0.$((reward * 5)), \\"extra\\": 1}" > /logs/verifier/reward.json\n'
            ),
            "steps/second/solution/solve.sh": _bash("[ ! -e /tests/judge.sh ] && head -n 1 hint > answer\n"),
        },
        {"reward": 0.75, "extra": 0.5},
        {"reward": 0.0, "extra": 0.5},
    ),
    HarborTask(
        "steps-final",
        {
            "task.toml": 'schema_version = "1.4"\nmulti_step_reward_strategy = "final"\n'
            '[[steps]]\nname = "gate"\nmin_reward = 0.5\n'
            '[[steps]]\nname = "narrow"\nmin_reward = {reward = 0.2, width = 3}\n[[steps]]\nname = "last"\n',
            "environment/Dockerfile": _DOCKERFILE,
            "tests/test.sh": _bash("echo 1 > /logs/verifier/reward.txt\n"),
            "solution/solve.sh": _bash("touch passed\n"),
            "steps/gate/instruction.md": "Make the file passed.",
            "steps/gate/tests/test.sh": _bash("if [ -e passed ]; " + _JUDGE),
            "steps/narrow/instruction.md": "Do nothing.",
            "steps/narrow/tests/test.sh": _bash(
                'echo "{\\"reward\\": 0.2, \\"width\\": 3}" > /logs/verifier/reward.json\n'
            ),
            "steps/last/instruction.md": "Do nothing.",
        },
    ),
    HarborTask(
        "no-network",
        _task(
            "Write the names of all network interfaces into the file interfaces.",
            'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
            "echo $(tail -n +3 /proc/net/dev | cut -d : -f 1) > interfaces\n",
            'if [ "$(cat interfaces)" = lo ]; ' + _JUDGE,
        ),
    ),
    HarborTask(
        "workdir",
        _task(
            "Write `here` into the file answer of the working directory.",
            'schema_version = "1.4"\n[environment]\nworkdir = "/srv/work"\n',
            "echo here > answer\n",
            'if [ "$(pwd) $(cat /srv/work/answer)" = "/srv/work here" ]; ' + _JUDGE,
            "FROM BASE\nRUN mkdir -p /srv/work /app\nWORKDIR /app\n",
        ),
    ),
    HarborTask(
        "agent-time",
        _task(
            "Write `done` into the file answer.",
            'schema_version = "1.4"\n[agent]\ntimeout_sec = 3.0\n',
            "echo done > answer; sleep 600; echo late > answer\n",
            'if [ "$(cat answer)" = done ]; ' + _JUDGE,
        ),
    ),
    HarborTask(
        "verifier-time",
        _task(
            "Write `done` into the file answer.",
            'schema_version = "1.4"\n[verifier]\ntimeout_sec = 4.0\n',
            "echo done > answer\n",
            'until [ -e answer ]; do sleep 1; done\nif [ "$(cat answer)" = done ]; ' + _JUDGE,
        ),
        nothing=None,
    ),
    HarborTask(
        "image",
        _task(
            "Write the word of the file word backwards into the file answer.",
            'schema_version = "1.4"\n[environment]\ndocker_image = "BASE"\nworkdir = "/workspace"\n',
            "echo cba > answer\n",
            'if [ "$(cat word) $(cat answer)" = "abc cba" ]; ' + _JUDGE,
            "",
        )
        | {"environment/word": "abc\n"},
    ),
    HarborTask(
        "compose",
        _task(
            "Write the value of the variable LEVEL into the file answer of the working directory.",
            'schema_version = "1.4"\n',
            'echo "$LEVEL" > answer\n',
            'if [ "$(pwd) $(cat /srv/answer)" = "/srv 7" ]; ' + _JUDGE,
        )
        | {
            "environment/docker-compose.yaml": "services:\n  main:\n    build: .\n    working_dir: /srv\n"
            '    environment:\n      LEVEL: "7"\n    command: ["sleep", "infinity"]\n'
        },
        apart="its environment for `cwsandbox` runs Docker in a privileged sandbox for any Compose file",
    ),
    HarborTask(
        "server",
        _task(
            "Serve a page `/answer` with the text `served` at port 8080.",
            'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n',
            "mkdir www; echo served > www/answer\nsetsid httpd -f -p 8080 -h /app/www > /dev/null 2>&1 &\nsleep 0.3\n",
            'if [ "$(wget -q -O - http://127.0.0.1:8080/answer)" = served ]; ' + _JUDGE,
        ),
    ),
)
TASKS_BY_NAME = {task.name: task for task in TASKS}

ALLOW_LIST = HarborTask(
    "allow-list",
    _task(
        "Write the page http://allowed.example/ into the file page.",
        'schema_version = "1.4"\n[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["allowed.example"]\n',
        "wget -q -O page http://allowed.example/\nwget -q -T 5 -O other http://other.example/ || rm -f other\n",
        "if [ -s page ] && [ ! -e other ]; " + _JUDGE,
    ),
    apart="its environment for `cwsandbox` has no allow-lists",
)
"""A task for a machine with the Internet of `tests.support.internet`."""
