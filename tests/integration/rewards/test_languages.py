"""Programs in other languages than Python: each is compiled and run in a sandbox, by the tools of this machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandrl.answers.builds import builds_of
from sandrl.errors import InputError
from sandrl.events.results import CheckStatus, Status, Trust
from sandrl.judge.limits import Limits
from sandrl.problems import Case, Completion, Problem, as_problems, languages
from sandrl.problems.calls import Call
from sandrl.problems.languages import LANGUAGES, PYTHON, language_named
from sandrl.redteam import EXPLOITS_IN_CPP, attack
from sandrl.redteam.corpus.compiled import PRIMES
from sandrl.rewards import Judge, ScoreOptions, score
from sandrl.sandboxes import Job
from sandrl.scoring.document import result_document
from tests.support.judges import scored
from tests.support.programs import require_language

SUM = (Case("3 4\n", "7\n"), Case("10 -4\n", "6\n"))

ADDERS = {
    "cpp": "#include <bits/stdc++.h>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }",
    "c": '#include <stdio.h>\nint main(void) { long a, b; scanf("%ld %ld", &a, &b); printf("%ld\\n", a + b); }',
    "javascript": "const [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number);\nconsole.log(a + b);",
    "typescript": "import * as fs from 'fs';\n"
    "const [a, b]: number[] = fs.readFileSync(0, 'utf8').split(' ').map(Number);\n"
    "console.log(a + b);",
    "go": 'package main\n\nimport "fmt"\n\nfunc main() {\n\tvar a, b int\n\tfmt.Scan(&a, &b)\n\tfmt.Println(a + b)\n}',
    "rust": "use std::io::Read;\nfn main() {\n    let mut text = String::new();\n"
    "    std::io::stdin().read_to_string(&mut text).unwrap();\n"
    "    let sum: i64 = text.split_whitespace().map(|word| word.parse::<i64>().unwrap()).sum();\n"
    '    println!("{sum}");\n}',
    "java": "import java.util.Scanner;\n\npublic class Adder {\n    public static void main(String[] args) {\n"
    "        var in = new Scanner(System.in);\n        System.out.println(in.nextLong() + in.nextLong());\n    }\n}",
    "bash": "read a b\necho $((a + b))",
    "ruby": "a, b = gets.split.map(&:to_i)\nputs a + b",
    "php": '<?php\nfscanf(STDIN, "%d %d", $a, $b);\necho $a + $b, "\\n";',
    "perl": 'my ($a, $b) = split " ", <STDIN>;\nprint $a + $b, "\\n";',
    "lua": 'local a, b = io.read("n", "n")\nprint(a + b)',
    "r": 'x <- scan(file("stdin"), quiet = TRUE)\ncat(x[1] + x[2], "\\n")',
}

# Texts that no compiler accepts, or that no interpreter runs.
BROKEN = {
    "cpp": "int main() { return undefined_name; }",
    "c": "int main(void) { return undefined_name; }",
    "typescript": "const a: number = ;",
    "go": "package main\n\nfunc main() { undefined_name() }",
    "rust": "fn main() { undefined_name(); }",
    "java": "public class Main { public static void main(String[] args) { undefinedName(); } }",
}

# Programs that call a function of the answer, as MultiPL-E's are: they fail if it is wrong.
FUNCTIONS = {
    "cpp": ("#include <cassert>\nint add(int a, int b) { return a %s b; }", "int main() { assert(add(2, 3) == 5); }"),
    "javascript": ("function add(a, b) { return a %s b; }", "require('node:assert').deepEqual(add(2, 3), 5);"),
    "go": (
        'package add_test\n\nimport "testing"\n\nfunc add(a, b int) int { return a %s b }',
        'func TestAdd(t *testing.T) {\n\tif add(2, 3) != 5 {\n\t\tt.Errorf("wrong")\n\t}\n}',
    ),
    "rust": ("fn add(a: i64, b: i64) -> i64 { a %s b }", "fn main() { assert_eq!(add(2, 3), 5); }"),
    "java": (
        "import org.javatuples.*;\nclass Problem {\n    static int add(int a, int b) { return a %s b; }",
        "    public static void main(String[] args) { assert(Pair.with(add(2, 3), 0).equals(Pair.with(5, 0))); }\n}",
    ),
}


def test_there_is_a_program_for_every_language_of_the_table() -> None:
    assert sorted(ADDERS) == sorted(language.name for language in LANGUAGES if language.name != PYTHON)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("cpp", '#include <cstdio>\nint main() {\n#ifdef ONLINE_JUDGE\n    std::puts("judge");\n#endif\n}\n'),
        (
            "java",
            "public class Main {\n    public static void main(String[] args) {\n"
            '        System.out.println(System.getProperty("ONLINE_JUDGE") == null ? "home" : "judge");\n    }\n}\n',
        ),
    ],
)
def test_a_program_is_built_and_run_as_by_an_online_judge(job: Job, name: str, code: str) -> None:
    require_language(name)
    [result] = scored(job, Problem("judge", "?", cases=(Case("", "judge\n"),), language=name), code)
    assert (result.reward, result.detail) == (1.0, "")


PACK = {
    "JavaScript": (
        "const twice = (n) => {\n",
        "  return 2 * n;\n}\n",
        "const test = () => {\n  console.assert(twice(2) === 4)\n  console.assert(twice(0) === 0)\n}\n\ntest()\n",
    ),
    "Java": (
        "import java.util.*;\n\nclass Solution {\n    public int twice(int n) {\n",
        "        return 2 * n;\n    }\n}",
        "public class Main {\n    public static void main(String[] args) {\n        Solution s = new Solution();\n"
        "        List<Boolean> correct = Arrays.asList(s.twice(2) == 4, s.twice(0) == 0);\n"
        "        if (correct.contains(false)) {\n            throw new AssertionError();\n        }\n    }\n}",
    ),
    "CPP": (
        "#include <vector>\nusing namespace std;\nint twice(int n){\n",
        "    return 2 * n;\n}\n",
        "#undef NDEBUG\n#include<assert.h>\nint main(){\n    assert (twice(2)==4);\n    assert (twice(0)==0);\n}\n",
    ),
}
"""Declarations, bodies and tests in the form of HumanEvalPack."""


@pytest.mark.parametrize("name", sorted(PACK))
def test_a_row_of_humanevalpack_is_its_program_with_its_tests(job: Job, name: str) -> None:
    declaration, body, test = PACK[name]
    row = {
        "task_id": f"{name}/0", "declaration": declaration, "prompt": declaration, "canonical_solution": body,
        "entry_point": "twice", "import": "", "test_setup": "", "test": test, "example_test": test,
    }  # fmt: skip
    [problem] = as_problems([row]).values()
    require_language(problem.language)
    wrong = body.replace("2 *", "2 +")
    results = scored(job, problem, body, declaration + body, wrong, declaration + wrong)
    assert [(each.reward, each.detail) for each in results[:2]] == [(1.0, "")] * 2
    assert [each.reward for each in results[2:]] == [0.0] * 2


@pytest.mark.parametrize("name", sorted(ADDERS))
def test_a_program_reads_its_cases_and_prints(job: Job, name: str) -> None:
    require_language(name)
    right, wrong = ADDERS[name], ADDERS[name].replace("+ ", "- ").replace("sum()", "max().unwrap()")
    assert wrong != right
    problem = Problem("add", "Add.", cases=SUM, language=name)
    good, bad = scored(job, problem, right, wrong)
    assert (good.reward, good.status, good.trust, good.passed) == (1.0, Status.PASSED, Trust.ISOLATED, 2), good.detail
    assert (bad.reward, bad.status) == (0.0, Status.FAILED), bad.detail
    assert bad.detail.startswith("case 1 of 2: the output differs")


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_what_the_compiler_refuses_is_a_compile_error_with_its_words(job: Job, name: str) -> None:
    require_language(name)
    [result] = scored(job, Problem("add", "Add.", cases=SUM, language=name), BROKEN[name])
    assert (result.reward, result.status, result.passed, result.total) == (0.0, Status.COMPILE_ERROR, 0, 2)
    assert {check.status for check in result.checks} == {CheckStatus.NOT_REACHED}
    assert "undefined" in result.detail or "expected" in result.detail
    assert result.detail.split()[0].rstrip(".:0123456789,()") not in ("", "In")


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_tests_are_appended_to_the_code_and_the_exit_status_decides(job: Job, name: str) -> None:
    require_language(name)
    function, test = FUNCTIONS[name]
    problem = Problem("add", "Add.", tests=(test,), language=name)
    good, bad, broken = scored(job, problem, function % "+", function % "-", function % "+ nothing +")
    assert (good.reward, good.trust) == (1.0, Trust.IN_PROCESS), good.detail
    assert (bad.reward, bad.trust) == (0.0, Trust.IN_PROCESS)
    assert bad.status in (Status.FAILED, Status.CRASHED)
    refused = Status.FAILED if name == "javascript" else Status.COMPILE_ERROR
    assert (broken.reward, broken.status) == (0.0, refused)


def test_an_overflow_ends_a_program_in_rust_as_the_compiler_has_it_by_default(job: Job) -> None:
    require_language("rust")
    problem = Problem("shrink", "Subtract 1.", tests=('fn main() { shrink("".len()); }',), language="rust")
    plain, wrapping = scored(
        job,
        problem,
        "fn shrink(n: usize) -> usize { n - 1 }",
        "fn shrink(n: usize) -> usize { n.wrapping_sub(1) }",
    )
    assert (plain.reward, wrapping.reward) == (0.0, 1.0)
    assert "overflow" in plain.stderr


def test_each_test_is_a_program_of_its_own(job: Job) -> None:
    require_language("c")
    tests = [f"int main(void) {{ return add(2, {n}) != {n + 2}; }}" for n in (1, 2)]
    tests += ["int main(void) { return multiply(2, 2) != 4; }", "int main(void) { return add(1, 1) != 2; }"]
    problem = Problem("add", "Add.", tests=tuple(tests), language="c")
    [result] = scored(job, problem, "int add(int a, int b) { return b == 2 ? 0 : a + b; }")
    letters = [check.status for check in result.checks]
    assert letters == [CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.FAILED, CheckStatus.PASSED]
    assert (result.status, result.detail) == (Status.FAILED, "check 2 of 4: it exited with status 1")
    assert "multiply" in result.checks[2].detail


def test_the_exit_status_alone_can_be_the_check(job: Job) -> None:
    require_language("c")
    problem = Problem("run", "Run.", check="exit_status", language="c")
    good, bad = scored(job, problem, "int main(void) { return 0; }", "int main(void) { return 3; }")
    assert (good.reward, good.trust) == (1.0, Trust.EXIT_STATUS)
    assert (bad.reward, bad.status, bad.detail) == (0.0, Status.FAILED, "it exited with status 3")


def test_compiling_and_running_have_times_of_their_own(job: Job) -> None:
    require_language("cpp")
    problem = Problem("add", "Add.", cases=SUM, language="cpp")
    slow = "#define A(x) x x x x x x x x x x\nint n = 0;\nint main() { A(A(A(A(A(A(n += n * n;)))))) }"
    [quick] = scored(job, problem, ADDERS["cpp"], limits=Limits(timeout_seconds=0.4))
    assert quick.reward == 1.0, quick.detail
    assert 0.0 < quick.compile_seconds < quick.duration_seconds
    assert result_document(quick)["compile_seconds"] == round(quick.compile_seconds, 4)
    [late] = scored(job, problem, slow, limits=Limits(compile_timeout_seconds=1.0))
    assert late.reward == 0.0
    assert late.status in (Status.TIMEOUT, Status.RESOURCE_LIMIT)
    assert late.detail.startswith("while it was compiled: ")
    [hangs] = scored(job, problem, "int main() { for (;;); }", limits=Limits(timeout_seconds=1.0))
    assert (hangs.status, hangs.detail) == (Status.TIMEOUT, "case 1 of 2: it ran longer than 1 s")


HONEST = {
    "c-deep": (
        "c",
        "#include <stdio.h>\nstatic long f(long n) { volatile char b[64]; b[0] = 1; return n ? b[0] + f(n - 1) : 0; }\n"
        'int main(void) { printf("%s\\n", f(1000000) == 1000000 ? "ok" : "wrong"); }',
    ),
    "cpp-threads": (
        "cpp",
        "#include <atomic>\n#include <cstdio>\n#include <thread>\n#include <vector>\n"
        "int main() {\n    std::atomic<int> n{0};\n    std::vector<std::thread> all;\n"
        "    for (int i = 0; i < 50; ++i) all.emplace_back([&] { ++n; });\n    for (auto &each : all) each.join();\n"
        '    std::puts(n == 50 ? "ok" : "wrong");\n}',
    ),
    "java-types": (
        "java",
        "package a.b;\n/* public class Not { } */\ninterface Named { String name(); }\n"
        "record Ok(String name) implements Named { }\n"
        "class Runs {\n    static int depth(int n) { return n == 0 ? 0 : 1 + depth(n - 1); }\n"
        "    public static void main(String[] args) {\n"
        "        for (int i = 0; i < 2000; ++i) { byte[] b = new byte[1 << 20]; b[i] = 1; }\n"
        '        System.out.println(depth(50000) == 50000 ? new Ok("ok").name() : "wrong");\n    }\n}',
    ),
    "javascript-module": (
        "javascript",
        "import { readFileSync } from 'node:fs';\nconst word = await Promise.resolve('ok');\nconsole.log(word);",
    ),
    "javascript-script": (
        "javascript",
        "// import and export are words here\nconst { stdin } = process;\nlet text = '';\n"
        "stdin.on('data', (part) => (text += part));\n"
        "stdin.on('end', () => console.log(require('assert') ? 'ok' : text));",
    ),
    "typescript-types": (
        "typescript",
        "declare var require: any;\ninterface Named { name: string }\nenum Word { Ok = 'ok' }\n"
        "const named: Named = { name: Word.Ok } as unknown as Named;\nconsole.log(named.name);",
    ),
    "go-goroutines": (
        "go",
        'package main\n\nimport "fmt"\n\nfunc main() {\n\tdone := make(chan int)\n'
        "\tfor i := 0; i < 1000; i++ {\n\t\tgo func() { done <- 1 }()\n\t}\n\tn := 0\n"
        "\tfor i := 0; i < 1000; i++ {\n\t\tn += <-done\n\t}\n"
        '\tif n == 1000 {\n\t\tfmt.Println("ok")\n\t}\n}',
    ),
    "bash-files": ("bash", 'echo ok > "$HOME/word"\ncp "$HOME/word" copy\nsort copy | uniq'),
}


@pytest.mark.parametrize("name", sorted(HONEST))
def test_honest_programs_of_every_style_pass(job: Job, name: str) -> None:
    language, code = HONEST[name]
    require_language(language)
    [result] = scored(job, Problem(name, "Print ok.", cases=(Case("", "ok\n"),), language=language), code)
    assert result.reward == 1.0, (result.status, result.detail, result.stderr)


def test_how_a_program_ends_decides_its_status(job: Job) -> None:
    require_language("c")
    problem = Problem("end", "Print ok.", cases=(Case("", "ok\n"),), language="c")
    heads = "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void) { "
    bodies = {
        'puts("ok"); return 3;': (Status.FAILED, "it exited with status 3"),
        'fputs("Error: no\\n", stderr); return 71;': (Status.FAILED, "it exited with status 71: Error: no"),
        "raise(SIGSEGV);": (Status.CRASHED, "it was killed by signal 11"),
        "abort();": (Status.CRASHED, "it was killed by signal 6"),
        "for (;;) memset(malloc(1 << 20), 1, 1 << 20);": (Status.RESOURCE_LIMIT, "it was killed (signal 9)"),
        "for (;;);": (Status.TIMEOUT, "it ran longer than 2 s"),
    }
    codes = [heads + body + " }" for body in bodies]
    results = scored(job, problem, *codes, limits=Limits(timeout_seconds=2.0))
    for result, (status, detail) in zip(results, bodies.values(), strict=True):
        assert (result.reward, result.status) == (0.0, status), result.detail
        assert result.detail.startswith(f"case 1 of 1: {detail}")


def test_no_run_finds_what_the_one_before_it_left(job: Job) -> None:
    require_language("bash")
    # Says ok only where it finds no file of another run, no process of it, and its own program as it was.
    code = (
        "read word\n"
        'alone() { [ -z "$(ls -A "$HOME")" ] && [ "$(ls -A)" = main.sh ] && ! grep -lx sleep /proc/[0-9]*/comm; }\n'
        'alone && echo "$word"\n'
        'touch "$HOME/.bashrc" .profile\necho "echo stolen" > main.sh\n'
        "setsid sleep 100 &\n(setsid sleep 100 > /dev/null 2>&1 &)"
    )
    cases = tuple(Case(f"{word}\n", f"{word}\n") for word in ("one", "two", "three"))
    [result] = scored(job, Problem("alone", "Echo.", cases=cases, language="bash"), code)
    assert result.reward == 1.0, (result.detail, result.stdout, result.stderr)


def test_a_language_whose_tools_are_missing_makes_no_wrong_answer(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    language = language_named("c")
    [form] = language.forms
    lost = replace(language, forms=(replace(form, compile=("gcc-of-nobody", *form.compile[1:])),))
    monkeypatch.setitem(languages._BY_NAME, "c", lost)
    results = scored(job, Problem("add", "Add.", cases=SUM, language="c"), ADDERS["c"], BROKEN["c"], "x")
    assert [(result.reward, result.status) for result in results] == [(None, Status.INVALID_PROBLEM)] * 3
    assert results[0].detail == (
        "the problem's language is c, and sandboxes cannot run it: gcc-of-nobody: command not found "
        "(install the Debian packages gcc, libc6-dev)"
    )
    assert results[0].canaries + results[1].canaries + results[2].canaries >= 1


def test_a_library_that_the_problem_needs_and_sandboxes_lack_makes_it_invalid(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_language("c")
    language = language_named("c")
    needs = replace(language.forms[0], example="#include <no/such.h>\n", marks="#include <no/such.h>")
    monkeypatch.setitem(languages._BY_NAME, "c", replace(language, forms=(needs, *language.forms)))
    with_it = "#include <no/such.h>\nint main(void) { return 0; }"
    without = "int main(void) { return 0; }"
    problem = Problem("run", "Run.", check="exit_status", language="c", reference=with_it)
    for lacking in scored(job, problem, with_it, without):
        assert (lacking.reward, lacking.status) == (None, Status.INVALID_PROBLEM)
        assert "no/such.h" in lacking.detail
    own_choice, fine = scored(job, replace(problem, reference=None), with_it, without)
    assert (own_choice.reward, own_choice.status) == (0.0, Status.COMPILE_ERROR)
    assert "no/such.h" in own_choice.detail
    assert fine.reward == 1.0


def test_a_reference_that_does_not_compile_with_its_tests_makes_the_problem_invalid(job: Job) -> None:
    require_language("c")
    test = "int main(void) { return add(2, 3) != 5; }"
    reference = "int add(int a, int b) { return a + b; }"
    problem = Problem("add", "Add.", tests=(f"{test} }}",), language="c", reference=reference)
    [result] = scored(job, problem, reference)
    assert (result.reward, result.status) == (None, Status.INVALID_PROBLEM)
    sound = Problem("add", "Add.", tests=(test,), language="c", reference=reference)
    right, wrong = scored(job, sound, reference, "int add(int a) { return; }; }")
    assert (right.reward, wrong.reward, wrong.status) == (1.0, 0.0, Status.COMPILE_ERROR)


def test_tests_in_the_same_program_can_be_refused(job: Job) -> None:
    require_language("c")
    problem = Problem("add", "Add.", tests=("int main(void) { return add(2, 3) != 5; }",), language="c")
    judge = Judge(require_isolated=True)
    completions = [Completion("0", "add", code="int add(int a, int b) { return a + b; }")]
    [result] = score(completions, {"add": problem}, job=job, judge=judge).results
    assert (result.reward, result.status) == (None, Status.NOT_ISOLATED)


def test_exploits_in_cpp_are_never_rewarded_and_disturb_nobody(job: Job) -> None:
    require_language("cpp")
    quick = [exploit for exploit in EXPLOITS_IN_CPP if not exploit.costly]
    report = attack([PRIMES], quick, job=job, options=ScoreOptions(limits=Limits(timeout_seconds=3.0), concurrency=2))
    assert [attempt.exploit.name for attempt in report.rewarded] == []
    assert [(result.status, result.detail) for result in report.disturbed] == []
    assert report.unfit == report.unscorable == ()
    assert {attempt.result.trust for attempt in report.attempts} == {Trust.ISOLATED}
    assert len(report.attempts) == len(quick) > 10
    assert len(report.neighbours) > 2


def test_setup_and_what_only_python_has() -> None:
    with pytest.raises(InputError, match="calls of functions are supported for Python only, and the language is cpp"):
        Problem("f", "", fn="f", calls=(Call.of([1], 1),), language="c++")
    with pytest.raises(InputError, match="Python only"):
        Problem("f", "", cases=SUM, prelude="import math", language="go")
    with pytest.raises(InputError, match="is empty, so it checks nothing"):
        Problem("f", "", tests=(" \n",), language="rust")
    problem = Problem("f", "", tests=("int main() {}",), setup="#include <cmath>", language="cpp")
    [build] = builds_of(problem, "int f();")
    assert build.source == "#include <cmath>\nint f();\nint main() {}\n"
