"""Answers in other languages than Python: where their code is, and how it is joined to what the problem gives."""

from __future__ import annotations

import re
import time

import pytest

from sandrl.answers.assembly import join_to_tests
from sandrl.answers.builds import build_of
from sandrl.answers.extraction import extract, extract_code
from sandrl.answers.syntaxes import SYNTAXES
from sandrl.judge.stubs import stubs_of
from sandrl.problems import Case, Completion, Problem, chat_prompt, render_prompt
from sandrl.problems.languages import LANGUAGES, PYTHON
from sandrl.rewards import Extraction

CPP = Problem(
    "p",
    '#include<assert.h>\n#include<bits/stdc++.h>\n// Doubles. "It\'s" {\nlong twice(long n) {\n',
    tests=("}\nint main() {\n    auto candidate = twice;\n    assert(candidate(2) == 4);\n}\n",),
    language="cpp",
)
PROGRAM = Problem("p", "Print twice the number.", cases=(Case("2\n", "4\n"),), language="cpp")
MAIN = '#include <iostream>\n\nint main() {\n    int n;\n    std::cin >> n;\n    std::cout << 2 * n << "\\n";\n}'
BODY = "    return 2 * n;\n"


@pytest.mark.parametrize(
    ("source", "file", "main"),
    [
        ("public class Foo$Bar { public static void main(String[] a) {} }", "Foo$Bar.java", "Foo$Bar"),
        ("public class Été { public static void main(String[] a) {} }", "Été.java", "Été"),
        ("class Été { public static void main(String[] a) {} }", "Main.java", "Été"),
        ("public @interface Mark {}\nclass A { public static void main(String[] a) {} }", "Mark.java", "A"),
        ("class Helper {}\npublic class Run { static void main(String[] a) {} }", "Run.java", "Run"),
    ],
)
def test_a_java_program_is_compiled_in_the_file_of_its_public_type(source: str, file: str, main: str) -> None:
    build = build_of(next(each for each in LANGUAGES if each.name == "java"), source)
    assert (build.file_name, build.type_name) == (file, main)


def code_of(completion: str, problem: Problem = CPP) -> str:
    return extract_code(Completion(id="1", task_id="p", completion=completion), problem) or ""


def squeezed(code: str) -> str:
    return "".join(code.split())


def test_every_language_but_python_has_a_syntax_and_an_empty_program() -> None:
    assert {each.name for each in LANGUAGES} - {PYTHON} == SYNTAXES.keys()
    for name in SYNTAXES:
        problem = Problem("p", "", cases=(Case("", ""),), language=name)
        [stub] = stubs_of(problem)
        assert extract_code(Completion(id="1", task_id="p", code=stub.code), problem) == stub.code


@pytest.mark.parametrize(
    "completion",
    [
        BODY,
        f"{BODY}}}\n",
        f"{BODY}}}\n\nint main() {{ return twice(2) - 4; }}\n",
        f"{BODY}}}\n\nlong other(long n) {{\n    return",
        f"{BODY}}}\n```\n\nThis doubles `n`.",
        f"```cpp\n{BODY}```",
        f"```c++\n{BODY}}}\n```\nDone.",
        "long twice(long n) {\n    return 2 * n;\n}",
        "```cpp\nlong twice(long n) {\n    return 2 * n;\n}\n```",
        "<answer>long twice(long n) {\n    return 2 * n;\n}</answer>",
        "<think>```cpp\nlong twice(long n) { return 3; }\n```</think>\nlong twice(long n) {\n    return 2 * n;\n}"
        "<|im_end|>",
        "```\nlong twice(long n) {\n    return 2 * n;\n}\n```\n```text\n4\n```\n```bash\ng++ main.cpp && ./a.out\n```",
        "First try:\n```cpp\nlong twice(long n) { return 3 * n; }\n```\nFixed:\n```cpp\nlong twice(long n) {\n"
        "    return 2 * n;\n}\n```\nUse it so:\n```cpp\nint main() { std::cout << twice(2); }\n```",
        "```cpp\n#include <bits/stdc++.h>\n\nlong twice(long n) {\n    return 2 * n;\n}\n\n"
        "int main() {\n    return 1;\n}\n```",
        "Sure:\n```cpp\nlong twice(long n) {\n    return 2 * n;\n}",
        "```cpp\nlong twice(long n) {\n    return 2 * n;\n```",
        "Here you go.\n\nlong twice(long n) {\n    return 2 * n;\n}\n\nThat is all there is to it.",
    ],
)
def test_every_style_of_a_right_answer_becomes_the_same_program(completion: str) -> None:
    code = code_of(completion)
    assert "returntwice" not in squeezed(code)
    assert code.count("int main") == 0
    assert "3" not in code
    assert code.count("#include<assert.h>") == 1
    assert squeezed("long twice(long n) { return 2 * n; } static void end_of_the_answer(void) {") in squeezed(code)


def test_helpers_stay_and_what_the_tests_define_does_not() -> None:
    whole = "long one() { return 1; }\nlong twice(long n) { return n * two(); }\nint main() { return 1; }\nlong two();"
    code = code_of(f"```cpp\n{whole}\n```")
    assert "long one() { return 1; }" in code
    assert "main" not in code
    assert "long two();" in code


@pytest.mark.parametrize(
    ("completion", "code"),
    [
        (f"```cpp\n{MAIN}\n```", MAIN),
        (f"```\n{MAIN}\n```\nOutput:\n```\n4\n```", MAIN),
        (f"Compile it:\n```sh\ng++ main.cpp\n```\n```c++\n{MAIN}\n```\n```python\nprint(int(input()) * 2)\n```", MAIN),
        (f"```cpp\nint helper(int n) {{ return n; }}\n```\n```cpp\n{MAIN}\n```\n```text\n4\n```", MAIN),
        (MAIN, MAIN),
        (f"{MAIN}\n<|im_end|>", MAIN),
        (f"<answer>\n```cpp\n{MAIN}\n```\n</answer>", MAIN),
        (f"```cpp\n{MAIN.replace('<', '&lt;')}\n```", MAIN),
        (f"Say `int main` and so on.\n\n{MAIN}\n\nThis reads a number.", MAIN),
        (f"```cpp\n{MAIN}", MAIN),
    ],
)
def test_a_program_is_found_between_examples_and_commands(completion: str, code: str) -> None:
    assert code_of(completion, PROGRAM).strip() == code


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("ruby", "n = gets.to_i\nif n > 1\n  puts 2 * n\nelse\n  puts n\nend"),
        ("bash", 'read n\n\nif [ "$n" -gt 1 ]; then\n  echo $((2 * n))\nfi'),
        ("lua", 'local n = io.read("n")\n\nfor i = 1, 1 do\n  print(2 * n)\nend'),
        ("r", 'n <- scan("stdin", quiet = TRUE)\n\ntwice <- 2 * n\ncat(\n  twice\n)'),
        ("perl", "my $n = <STDIN>;\n\nprint 2 * $n, qq{\\n}"),
        ("javascript", "const n = require('fs').readFileSync(0)\n\nconsole.log(2 * n)"),
        ("go", 'package main\n\nimport "fmt"\n\nfunc main() {\n\tvar n int\n\tfmt.Scan(&n)\n\tfmt.Println(2 * n)\n}'),
        ("java", "import java.util.*;\n\npublic class Main {\n    public static void main(String[] a) {\n    }\n}"),
    ],
)
@pytest.mark.parametrize(
    "style",
    [
        "{code}",
        "{code}\n\nThis program reads a number, and prints (of course) twice of it.",
        "Here is the program:\n\n{code}\n",
        "```{language}\n{code}\n```\nIt prints:\n```\n4\n```",
        "<think>No.\n```{language}\nx\n```\n</think>\n```\n{code}\n```",
        "<answer>{code}</answer>",
        "```{language}\n{code}",
    ],
)
def test_a_program_is_found_in_every_language_and_style(language: str, code: str, style: str) -> None:
    problem = Problem("p", "Print twice the number.", cases=(Case("2\n", "4\n"),), language=language)
    assert code_of(style.format(code=code, language=language), problem).strip("\n") == code


def test_blocks_of_includes_and_of_helpers_are_joined_with_the_program_that_needs_them() -> None:
    head, _, main = MAIN.partition("\n\n")
    helper = "int helper(int n) { return 2 * n; }"
    used = main.replace("2 * n", "helper(n)")
    code = code_of(f"```cpp\n{head}\n```\nA helper:\n```cpp\n{helper}\n```\n```cpp\n{used}\n```", PROGRAM)
    assert squeezed(code) == squeezed("\n".join([head, helper, used]))


@pytest.mark.parametrize("how", list(Extraction))
def test_every_way_to_extract_finds_code_in_another_language(how: Extraction) -> None:
    text = {
        Extraction.RAW: MAIN,
        Extraction.EXACT: f"<answer>{MAIN}</answer>",
        Extraction.ANSWER: f"<answer>{MAIN}</answer>",
    }.get(how, f"```cpp\n{MAIN}\n```")
    assert (extract(text, how, PROGRAM) or "").strip() == MAIN


JAVA = Problem(
    "p",
    "import java.util.*;\nimport org.javatuples.*;\n"
    "class Problem {\n    // Doubles.\n    public static long twice(long n) {\n",
    tests=("    }\n    public static void main(String[] args) {\n    assert(twice(2l) == (4l));\n    }\n\n}\n",),
    language="java",
)
METHOD = "    public static long twice(long n) {\n        return 2 * n;\n    }"
OWN_MAIN = '    public static void main(String[] args) {\n        System.out.println("}" + twice(1));\n    }'


@pytest.mark.parametrize(
    "completion",
    [
        "        return 2 * n;\n",
        "        return 2 * n;\n    }\n",
        "        return 2 * n;\n    }\n}\n",
        METHOD,
        f"```java\n{METHOD}\n```",
        f"```java\nimport java.util.*;\n\n{METHOD}\n```",
        f"```java\nclass Problem {{\n{METHOD}\n}}\n```",
        f"```java\nimport java.util.*;\n\npublic class Problem {{\n{METHOD}\n\n{OWN_MAIN}\n}}\n```",
        f"```java\npublic class Solution {{\n{OWN_MAIN}\n\n{METHOD}\n}}\n```",
    ],
)
def test_a_method_and_a_class_in_java_leave_the_class_open_for_the_tests(completion: str) -> None:
    code = code_of(completion, JAVA)
    assert squeezed(code).endswith(squeezed(f"class Problem {{ {METHOD} static {{")) or "// Doubles." in code
    assert code.count("class Problem {") == 1
    assert "main" not in code
    assert code.count("import org.javatuples.*;") == 1
    assert code.count("{") - code.count("}") == 2


@pytest.mark.parametrize("end", ["", "\n}", "\n    }\n}"])
def test_a_class_that_no_prompt_names_is_left_open_too(end: str) -> None:
    test = "    public static void main(String[] args) { assert(twice(2) == 4); }\n}"
    method = METHOD.removesuffix("\n    }") if end.count("}") == 2 else METHOD
    problem = Problem("p", "Double it.", tests=(test,), language="java")
    code = extract_code(Completion(id="1", task_id="p", code=f"import a.B;\nclass Any {{\n{method}{end}"), problem)
    assert code is not None
    assert squeezed(code) == squeezed(f"import a.B; class Any {{ {METHOD}")


GO = Problem(
    "p",
    'package twice_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\n// Doubles.\nfunc twice(n int) int {\n',
    tests=('func TestTwice(t *testing.T) {\n\tif twice(2) != 4 {\n\t\tt.Error(fmt.Sprintf("%d", twice(2)))\n\t}\n}\n',),
    language="go",
)


def test_a_file_in_go_keeps_its_imports_and_loses_its_own_tests() -> None:
    own = (
        "func TestOwn(t *testing.T) {\n\tif !reflect.DeepEqual(twice(1), 3) {\n\t\tt.Fail()\n\t}\n}\n\nfunc main() {}\n"
    )
    imports = 'import (\n\t"reflect"\n\t"strings"\n\t"os"\n)'
    body = 'return len(strings.Repeat("a", 2*n))'
    whole = f"package main\n\n{imports}\n\nfunc twice(n int) int {{\n\t{body}\n}}\n\n"
    code = code_of(f"```go\n{whole}{own}```", GO)
    assert code.startswith("package twice_test\n")
    kept = {line for line in code.split("\n") if line.startswith("import")}
    # What the answer itself never used is its own mistake.
    assert kept == {'import "strings"', 'import "os"', 'import "testing"', 'import "fmt"'}
    assert "TestOwn" not in code
    assert "main" not in code


def test_the_imports_of_a_body_in_go_are_those_of_the_prompt() -> None:
    code = code_of("\treturn 2 * n\n}\n\nfunc unused() int {\n\treturn 1\n}\n", GO)
    assert code.startswith('package twice_test\nimport "testing"\nimport "fmt"')
    assert "unused" not in code
    assert squeezed(code).endswith("functwice(nint)int{return2*n}")


def test_a_helper_after_a_body_stays_if_the_body_uses_it() -> None:
    code = code_of("\treturn half(4 * n)\n}\n\nfunc half(n int) int {\n\treturn n / 2\n}\n\nfunc no() {}\n", GO)
    assert "func half(n int) int" in code
    assert "no()" not in code


JS_TESTS = "const assert = require('node:assert');\n\nfunction test() {\n  assert.deepEqual(twice(2), 4);\n}\n\ntest();"


@pytest.mark.parametrize(
    ("language", "prompt", "tests", "answer", "expected"),
    [
        (
            "javascript",
            "// Doubles.\nfunction twice(n){\n",
            JS_TESTS,
            "  return `${n}` * 2;\n}\nconsole.log(twice(",
            "",
        ),
        (
            "javascript",
            "function twice(n){\n",
            JS_TESTS,
            "```js\nconst assert = require('assert');\nfunction twice(n) { return 2 * n }\nassert(twice(1) === 2)\n"
            "function test() { twice(0) }\ntest();\n```",
            "const assert_of_the_answer = require('assert');\nfunction twice(n) { return 2 * n }\n"
            "assert_of_the_answer(twice(1) === 2)\n"
            "function test_of_the_answer() { twice(0) }\ntest_of_the_answer();",
        ),
        (
            "javascript",
            "function twice(n){\n",
            JS_TESTS,
            "```javascript\nexport const twice = (n) => n * 2;\nexport default twice;\n```",
            "const twice = (n) => n * 2;",
        ),
        (
            "typescript",
            "function twice(n: {[key: string]: number}): {[key: string]: number} {\n",
            "declare var require: any;\n" + JS_TESTS,
            "```ts\nfunction twice(n: {[key: string]: number}): {[key: string]: number} {\n  return n;\n}\n```",
            "function twice(n: {[key: string]: number}): {[key: string]: number} {\n  return n;\n}",
        ),
        (
            "php",
            "<?php\n// Doubles.\nfunction twice($n) {\n",
            "function candidate(...$args) {\n    return twice(...$args);\n}\n\ncandidate(2);\n",
            "```php\n<?php\nfunction twice($n) {\n    return 2 * $n;\n}\n?>\n```",
            "<?php\nfunction twice($n) {\n    return 2 * $n;\n}",
        ),
        (
            "php",
            "<?php\nfunction twice($n) {\n",
            "function candidate(...$args) {\n    return twice(...$args);\n}\n",
            "function twice($n) {\n    return 2 * $n;\n}",
            "<?php\nfunction twice($n) {\n    return 2 * $n;\n}",
        ),
        (
            "rust",
            "/// Doubles.\nfn twice(n: isize) -> isize {\n",
            "}\n\nfn main() {\n    assert_eq!(twice(2), 4);\n}\n",
            "```rust\nfn twice<'a>(n: isize) -> isize {\n    let _c = '{';\n    2 * n\n}\n\n"
            "fn main() {\n    twice(1);\n}\n```",
            "fn twice<'a>(n: isize) -> isize {\n    let _c = '{';\n    2 * n\n}\n"
            "#[allow(dead_code)] fn end_of_the_answer() {\n",
        ),
        (
            "ruby",
            "# Doubles.\ndef twice(n)\n",
            "require 'test/unit'\nclass TestTwice < Test::Unit::TestCase\nend\n",
            "  n.times do |each|\n    each\n  end\n  2 * n\nend\n\n# Example\ndef other(",
            "# Doubles.\ndef twice(n)\n  n.times do |each|\n    each\n  end\n  2 * n\nend\n",
        ),
        (
            "lua",
            "local function twice(n)\n",
            "lu = require('luaunit')\nos.exit(lu.LuaUnit.run())",
            "    for i = 1, n do\n        n = n\n    end\n    return 2 * n",
            "local function twice(n)\n    for i = 1, n do\n        n = n\n    end\n    return 2 * n\nend\n",
        ),
        (
            "perl",
            "sub twice {\n    my($n) = @_;\n",
            "use Test::Deep;\nsub testhumaneval { exit 1; }\ntesthumaneval();\n",
            "```perl\nuse strict;\nsub twice {\n    my ($n) = @_;\n    return 2 * $n; # {\n}\n\n__END__\nexit 0\n```",
            "use strict;\nsub twice {\n    my ($n) = @_;\n    return 2 * $n; # {\n}\n\n",
        ),
        (
            "bash",
            "#!/bin/bash\n# Doubles.\ntwice() {\n",
            '}\n\ncandidate() {\n    twice "$@"\n}\n',
            '```bash\n#!/bin/bash\ntwice() {\n    echo "$((2 * $1))" # ${#1}\n}\n```',
            '#!/bin/bash\ntwice() {\n    echo "$((2 * $1))" # ${#1}\n}\nend_of_the_answer() {\n:\n',
        ),
        (
            "r",
            "# Doubles.\ntwice <- function(n) {",
            "test_humaneval <- function() {\n}\ntest_humaneval()",
            "  if (n > 1) {\n    n\n  }\n  2 * n\n}\n# twice(2)",
            "# Doubles.\ntwice <- function(n) {\n  if (n > 1) {\n    n\n  }\n  2 * n\n}\n",
        ),
    ],
)
def test_an_answer_is_joined_as_its_language_needs_it(
    language: str, prompt: str, tests: str, answer: str, expected: str
) -> None:
    problem = Problem("p", prompt, tests=(tests,), language=language)
    code = code_of(answer, problem)
    if expected:
        assert re.sub(r"\n+", "\n", code).strip("\n") == expected.strip("\n")
    else:
        assert squeezed(code) == squeezed(prompt + "  return `${n}` * 2;\n}")


def test_code_without_tests_is_left_as_it_is() -> None:
    for text in (MAIN, "int x = {", "}}}}"):
        assert join_to_tests(PROGRAM, text) == text


def test_a_prompt_of_prose_is_put_before_no_answer() -> None:
    problem = Problem(
        "p", "Write `int twice(int n)` in C++.", tests=("int main() { return twice(2) != 4; }",), language="cpp"
    )
    function = "int twice(int n) {\n    return 2 * n;\n}"
    for text in (
        function,
        f"Here:\n```cpp\n{function}\n```\n```cpp\nint x;\n```",
        f"```\n{function}\nint main() {{}}\n```",
    ):
        assert code_of(text, problem).strip() == function


def test_a_signature_in_a_fence_of_the_prompt_may_be_continued() -> None:
    prompt = "Complete it.\n```rust\nfn twice(n: i64) -> i64 {\n```\nIt doubles."
    problem = Problem("p", prompt, tests=("fn main() { assert_eq!(twice(2), 4); }",), language="rust")
    assert squeezed(code_of("    2 * n\n}", problem)) == squeezed("fn twice(n: i64) -> i64 { 2 * n }")


PIECES = [
    *"{}(\"'`/\\#\n",
    *("a(", "f() {", "/*", 'R"(', 'r#"', "[[", "--[[", "<<<A\n", "```\n", "= /[", " " * 9, "def a\n", "function a\n"),
    *("class A {", "import (", "&lt;", "<answer>", "<think>", "a=", "a b "),
]


@pytest.mark.parametrize("language", sorted(SYNTAXES))
def test_reading_hostile_text_takes_bounded_time(language: str) -> None:
    problem = Problem("p", "f() {\n", tests=("}\nint main() { f(); }",), entry_point="a", language=language)
    for piece in PIECES:
        began = time.process_time()
        code_of("```\n" + piece * (15_000 // len(piece)) + "\n```", problem)
        code_of(piece * (15_000 // len(piece)), problem)
        assert time.process_time() - began < 5, piece


def test_a_model_is_asked_for_the_language_and_shown_no_suite_of_tests() -> None:
    [system, user] = chat_prompt(CPP, show_tests=5)
    assert "in C++" in system["content"]
    assert "Python" not in system["content"]
    assert user["content"] == CPP.prompt.strip("\n")
    assert render_prompt(CPP, show_tests=5).hidden == 1
    assert "2\n" in render_prompt(PROGRAM).text
