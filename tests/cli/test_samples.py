"""Published rows of CodeContests and LiveCodeBench, with answers written for them: right ones pass, wrong ones fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "samples"

# By the id of the row: a right answer, and one with a mistake that people make.
CODE_CONTESTS = {
    "3": (
        "from collections import Counter\n"
        "n = int(input())\n"
        "last = Counter(input().strip() for _ in range(n))\n"
        "this = Counter(input().strip() for _ in range(n))\n"
        "print(sum((last - this).values()))\n",
        # The lists are unordered.
        "n = int(input())\n"
        "last = [input() for _ in range(n)]\n"
        "this = [input() for _ in range(n)]\n"
        "print(sum(x != y for x, y in zip(last, this)))\n",
    ),
    "17": (
        "digits, answer = sorted(input().strip()), input().strip()\n"
        "first = next((i for i, digit in enumerate(digits) if digit != '0'), 0)\n"
        "best = digits[first] + ''.join(digits[:first] + digits[first + 1:])\n"
        "print('OK' if best == answer else 'WRONG_ANSWER')\n",
        # Leading zeroes are not allowed.
        "n, m = input(), input()\nprint('OK' if int(''.join(sorted(n))) == int(m) else 'WRONG_ANSWER')\n",
    ),
}
LIVE_CODE_BENCH = {
    "10": (
        "class Solution:\n"
        "    def countSeniors(self, details: List[str]) -> int:\n"
        "        return sum(int(each[11:13]) > 60 for each in details)\n",
        # Strictly more than 60.
        "class Solution:\n"
        "    def countSeniors(self, details: List[str]) -> int:\n"
        "        return sum(int(each[11:13]) >= 60 for each in details)\n",
    ),
    "191": (
        "n, games = int(input()), input().strip()\n"
        "wins = {who: games.count(who) for who in 'TA'}\n"
        "if wins['T'] != wins['A']:\n"
        "    print(max('TA', key=wins.get))\n"
        "else:\n"
        "    # Who did not win the last game had reached that number before.\n"
        "    print('A' if games[-1] == 'T' else 'T')\n",
        "n, games = int(input()), input()\nprint('T' if games.count('T') >= games.count('A') else 'A')\n",
    ),
}
STYLES = ("{}", "Let me think. We count.\n\n```python\n{}```\nThis is fast enough.", "<answer>\n{}</answer>")


@pytest.mark.slow
@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not beside the project")
@pytest.mark.parametrize(
    ("file", "answers"), [("code_contests", CODE_CONTESTS), ("live_code_bench_v1", LIVE_CODE_BENCH)], ids=["cc", "lcb"]
)
def test_right_answers_to_published_rows_pass_and_wrong_ones_fail(
    sandrl: Run, tmp_path: Path, file: str, answers: dict[str, tuple[str, str]]
) -> None:
    lines = []
    for number, (task_id, (right, wrong)) in enumerate(answers.items()):
        text = STYLES[number % len(STYLES)].format(right)
        lines += [
            {"task_id": task_id, "id": f"{task_id} right", "completion": text},
            {"task_id": task_id, "id": f"{task_id} wrong", "completion": f"```python\n{wrong}```"},
        ]
    path = tmp_path / "completions.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    # Cases of a problem run one after the other, on whatever machine this is.
    done = sandrl("reward", path, "--problems", SAMPLES / f"{file}.jsonl", "--timeout", "90", "--json")
    assert done.returncode == 0, done.stderr
    results = {result["id"]: result for result in json.loads(done.stdout)["results"]}
    rewards = {name: result["reward"] for name, result in results.items()}
    assert rewards == {name: 1.0 if name.endswith("right") else 0.0 for name in results}, results
    assert {result["trust"] for result in results.values()} == {"isolated"}
    # A wrong answer is one that printed or returned something else, not one that broke.
    assert {result["status"] for result in results.values()} == {"passed", "failed"}
