"""Rows of MultiPL-E, and rows like them in every language: answers in many styles, judged by this machine's tools."""

from __future__ import annotations

from pathlib import Path

import pytest

import sandrl
from sandrl.jsonl import Row
from sandrl.problems import Problem, load_problems
from sandrl.problems.formats import parse_problem
from sandrl.problems.languages import language_named
from sandrl.sandboxes import Connection, Job, new_job_id
from tests.support.plain_programs import published_program, rows_of, run_programs
from tests.support.programs import require_language

SAMPLES = Path(__file__).parents[4] / "shared" / "data" / "samples" / "multipl-e"

# By language: the prompt, the body with what ends the function, the tests, and a wrong body.
ROWS = {
    "cpp": (
        "#include<assert.h>\n#include<bits/stdc++.h>\n// Doubles.\nlong twice(long n) {\n",
        "    return 2 * n;\n}",
        "}\nint main() {\n    auto candidate = twice;\n    assert(candidate((2)) == (4));\n}\n",
        "int main() {\n    assert(twice(1) == 2);\n    return 0;\n}",
    ),
    "go_test.go": (
        'package twice_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\n// Doubles.\nfunc twice(n int) int {\n',
        "\treturn 2 * n\n}",
        'func TestTwice(t *testing.T) {\n  if fmt.Sprint(twice(2)) != fmt.Sprint(4) {\n    t.Errorf("wrong")\n  }\n}\n',
        "func TestTwice(t *testing.T) {\n\tif twice(1) != 3 {\n\t\tt.Fail()\n\t}\n}\n\nfunc main() {}",
    ),
    "java": (
        "import java.util.*;\nimport org.javatuples.*;\nclass Problem {\n    // Doubles.\n"
        "    public static long twice(long n) {\n",
        "        return 2 * n;\n    }",
        "    }\n    public static void main(String[] args) {\n    assert(twice((2l)) == (4l));\n    }\n\n}\n",
        "    public static void main(String[] args) {\n        System.out.println(twice(1));\n    }",
    ),
    "js": (
        "//Doubles.\nfunction twice(n){\n",
        "  return 2 * n;\n}",
        "const assert = require('node:assert');\n\n\nfunction test() {\n  let candidate = twice;\n"
        "  assert.deepEqual(candidate(2),4);\n}\n\ntest();",
        "const assert = require('assert');\nassert.strictEqual(twice(1), 2);",
    ),
    "ts": (
        "//Doubles.\nfunction twice(n: number): number {\n",
        "  return 2 * n;\n}",
        "declare var require: any;\nconst assert = require('node:assert');\n\n\nfunction test() {\n"
        "  let candidate = twice;\n  assert.deepEqual(candidate(2),4);\n}\n\ntest();",
        "console.log(twice(1));",
    ),
    "rs": (
        "/// Doubles.\nfn twice(n: isize) -> isize {\n",
        "    2 * n\n}",
        "}\n\nfn main() {\n    let candidate = twice;\n    assert_eq!(candidate(2), 4);\n}\n",
        'fn main() {\n    println!("{}", twice(1));\n}',
    ),
    "rb": (
        "# Doubles.\ndef twice(n)\n",
        "  2 * n\nend",
        "require 'test/unit'\nclass TestHumanEval < Test::Unit::TestCase\n  def test_twice\n"
        "    candidate = method(:twice)\n    assert_equal(4, candidate.call(2))\n  end\nend\n",
        "puts twice(1)",
    ),
    "php": (
        "<?php\n// Doubles.\nfunction twice($n) {\n",
        "    return 2 * $n;\n}",
        "function candidate(...$args) {\n    return twice(...$args);\n}\n\nfunction test(): void {\n"
        '    if (candidate(2) !== 4) { throw new Exception("Test failed!"); }\n}\n\ntest();',
        "echo twice(1);\n?>",
    ),
    "pl": (
        "# Doubles.\nsub twice {\n    my($n) = @_;\n",
        "    return 2 * $n;\n}",
        "use Test::Deep;\n\n\nsub testhumaneval {\n    my $candidate = \\&twice;\n"
        '        if(eq_deeply($candidate->(2),4)) {\n        print "ok!" }else{\n        exit 1;\n        }\n}\n\n'
        "testhumaneval();",
        "print twice(1);\n__END__\n",
    ),
    "lua": (
        "-- Doubles.\nlocal function twice(n)\n",
        "    return 2 * n\nend",
        "lu = require('luaunit')\n\nfunction test_humaneval()\nlocal candidate = twice\n"
        "    lu.assertEquals(candidate(2), 4)\nend\n\nos.exit(lu.LuaUnit.run())",
        "print(twice(1))",
    ),
    "r": (
        "# Doubles.\ntwice <- function(n) {",
        "  2 * n\n}",
        "test_humaneval <- function() {\n    candidate <- twice\n    stopifnot(isTRUE(all.equal(candidate(2), 4)))\n}\n"
        "test_humaneval()",
        "print(twice(1))",
    ),
    "sh": (
        "#!/bin/bash\n# Doubles.\n#\n# $1 is an integer\ntwice() {\n",
        "    echo $((2 * $1))\n}",
        '}\n\ncandidate() {\n    twice "$@"\n}\n\n'
        'set -e\nrun_test() {\n    [[ $(candidate "2") = "4" ]]\n}\n\nrun_test',
        "twice 1",
    ),
}


def answers(problem: Problem, prompt: str, body: str, extra: str) -> list[str]:
    """Completions in many styles; all say the same."""
    fence = problem.language
    is_class = "class Problem" in prompt
    whole = f"{prompt}{'' if prompt.endswith(chr(10)) else chr(10)}{body}"
    program = f"{whole}\n\n{extra}"
    header = whole[: whole.rindex(body)].rstrip().split("\n")
    signature = next(place for place in range(len(header) - 1, -1, -1) if "twice" in header[place])
    function = "\n".join([*header[signature:], body])
    if is_class:
        whole, program = whole + "\n}\n", program + "\n}\n"
    return [
        f"{body}\n",
        body.rpartition("\n")[0] + "\n",
        f"```{fence}\n{function}\n```",
        f"Here it is:\n\n```{fence}\n{whole}\n```\n\nRun it:\n```sh\nmake && ./run\n```\nIt prints:\n```\n4\n```\n",
        f"<think>Maybe\n```{fence}\n{function.replace('2', '3')}\n```\n</think>\n```{fence}\n{program}\n```\nDone.",
        f"<answer>\n{function}\n</answer>",
    ]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) for name in ROWS if name not in ("js", "sh")] + ["js", "sh"]
)
def test_right_answers_pass_in_every_style_and_wrong_ones_in_none(name: str) -> None:
    require_language(name.partition(".")[0])
    prompt, body, tests, extra = ROWS[name]
    row = {"name": "twice", "language": name, "prompt": prompt, "tests": tests, "stop_tokens": ["\n}"]}
    problem = parse_problem(Row(1, row), "rows", "rows").problem
    right = answers(problem, prompt, body, extra)
    wrong = [text.replace("2 *", "3 *") for text in right]
    rows = [{"task_id": "twice", "completion": text, "id": f"right {n}"} for n, text in enumerate(right)]
    rows += [{"task_id": "twice", "completion": text, "id": f"wrong {n}"} for n, text in enumerate([*wrong, "", "no"])]
    report = sandrl.score(rows, [problem])
    rewards = {result.id: (result.reward, result.detail) for result in report.results}
    expected = {each: 1.0 if each.startswith("right") else 0.0 for each in rewards}
    assert {each: reward for each, (reward, _) in rewards.items()} == expected, rewards


@pytest.mark.slow
# Each of some 160 answers is compiled twice, of which other work on this machine takes a share.
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("language", ["js", "rs", "go", "java", "cpp"])
def test_verdicts_on_published_answers_are_those_of_compiling_and_running_them(
    language: str, connection: Connection
) -> None:
    path = SAMPLES / f"humaneval-{language}.jsonl"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    require_language(language)
    rows, problems = rows_of(str(path)), load_problems(path).problems
    report = sandrl.score([{"task_id": row["task_id"], "completion": row["gpt_solution"]} for row in rows], problems)
    judged = {result.task_id: result.reward == 1.0 for result in report.results}
    details = {result.task_id: (result.status, result.detail) for result in report.results}
    name = language_named(language).name
    with Job(connection, job_id=new_job_id(), max_lifetime_seconds=3000) as job:
        ends = run_programs([(name, published_program(row)) for row in rows], job)
    direct = {row["task_id"]: status == 0 for row, (status, _) in zip(rows, ends, strict=True)}
    differing = {each for each, passes in direct.items() if judged[each] is not passes}
    assert not differing, {each: (details[each], direct[each]) for each in differing}
    assert sum(judged.values()) > len(rows) / 2
