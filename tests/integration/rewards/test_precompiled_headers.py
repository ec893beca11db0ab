"""A precompiled header makes compiling quicker and decides nothing: real compilations, with and without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandrl.events.results import ScoredCompletion, Status
from sandrl.judge.headers import Headers
from sandrl.problems import Case, Completion, Problem
from sandrl.problems.languages import language_named
from sandrl.rewards import Judge, ScoreOptions, score
from sandrl.sandboxes import Command, Connection, Job, SharedDirectory
from tests.support.programs import require_language

FORM = language_named("cpp").forms[-1]
MAIN = "int main() { std::vector<int> v{3}; std::cout << v[0]; }\n"
PROBLEM = Problem("three", "Print 3.", cases=(Case("", "3\n"),), language="cpp")


@pytest.fixture(scope="module")
def headers(tmp_path_factory: pytest.TempPathFactory) -> Headers:
    """Those of a directory that no sandbox sees."""
    require_language("cpp")
    made = Headers(SharedDirectory(tmp_path_factory.mktemp("prebuilt"), "/nowhere"), worth=1)
    assert made.quick_compile(FORM, ["g++"], "#include <bits/stdc++.h>\n") == []
    made.wait()
    return made


@pytest.fixture
def quick(connection: Connection) -> Judge:
    """A judge with the header that this machine's sandboxes see."""
    require_language("cpp")
    made = Headers(connection.prebuilt, worth=1)
    made.quick_compile(FORM, ["g++"], "#include <bits/stdc++.h>\n")
    made.wait()
    assert made.quick_compile(FORM, ["g++"], "#include <bits/stdc++.h>\n")
    return Judge(headers=made)


def judged(job: Job, judge: Judge, *codes: str) -> list[ScoredCompletion]:
    completions = [Completion(f"c{number}", "three", code=code) for number, code in enumerate(codes)]
    return list(score(completions, {"three": PROBLEM}, job=job, judge=judge, options=ScoreOptions()).results)


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        pytest.param("#include <bits/stdc++.h>\n" + MAIN, True, id="first"),
        pytest.param("// Three.\r\n\r\n# include<bits/stdc++.h> // all\r\n" + MAIN, True, id="after-comments"),
        pytest.param(
            "/* a\n * b **/ #include <assert.h>\n#include <bits/stdc++.h>\n" + MAIN, True, id="after-standard"
        ),
        pytest.param("#include <bits/stdc++.h>\n#define int long long\n", True, id="macro-after-it"),
        pytest.param("#define int long long\n#include <bits/stdc++.h>\n", False, id="macro"),
        pytest.param("#define _GLIBCXX_DEBUG\n#include <bits/stdc++.h>\n", False, id="debug"),
        pytest.param('#pragma GCC optimize("O3")\n#include <bits/stdc++.h>\n', False, id="pragma"),
        pytest.param("#ifdef X\n#include <bits/stdc++.h>\n#endif\n", False, id="condition"),
        pytest.param("#include <sys/types.h>\n#include <bits/stdc++.h>\n", False, id="after-another"),
        pytest.param("// goes on \\\n#include <bits/stdc++.h>\n" + MAIN, False, id="comment-of-two-lines"),
        pytest.param("/*\n#include <bits/stdc++.h>\n*/\n#include <vector>\n" + MAIN, False, id="in-a-comment"),
        pytest.param("#include <vector> /*\n*/ #include <bits/stdc++.h>\n", False, id="not-at-the-start-of-its-line"),
        pytest.param("#include <iostream>\n#include <vector>\n" + MAIN, False, id="without-it"),
        pytest.param("int n;\n#include <bits/stdc++.h>\n", False, id="after-code"),
        pytest.param("", False, id="empty"),
    ],
)
def test_only_programs_that_include_everything_first_use_it(headers: Headers, source: str, uses: bool) -> None:
    command = headers.quick_compile(FORM, ["g++", "main.cpp"], source)
    assert bool(command) is uses
    assert command == [] or (command[1], command[-1]) == ("-include", "main.cpp")


def test_a_header_is_made_once_and_again_after_its_sources_have_changed(tmp_path: Path) -> None:
    require_language("cpp")
    source, shown = "#include <bits/stdc++.h>\n", SharedDirectory(tmp_path, "/there")
    first = Headers(shown, worth=2)
    assert [first.quick_compile(FORM, ["g++"], source), os.listdir(tmp_path)] == [[], []]
    assert first.quick_compile(FORM, ["g++"], source) == []
    first.wait()
    [compiler, _, path] = first.quick_compile(FORM, ["g++"], source)
    [folder] = tmp_path.iterdir()
    assert (compiler, path) == ("g++", f"/there/{folder.name}/everything.h")
    assert Headers(shown).quick_compile(FORM, ["g++"], source) == [compiler, "-include", path]
    (folder / "signature").write_text("that of other headers")
    again = Headers(shown, worth=1)
    assert again.quick_compile(FORM, ["g++"], source) == []
    again.wait()
    assert again.quick_compile(FORM, ["g++"], source) == [compiler, "-include", path]
    assert list(tmp_path.iterdir()) == [folder]


def test_without_a_directory_that_sandboxes_see_there_is_none() -> None:
    headers = Headers(None, worth=1)
    assert [headers.quick_compile(FORM, ["g++"], "#include <bits/stdc++.h>\n") for _ in range(3)] == [[]] * 3


def test_programs_mean_the_same_with_it(job: Job, quick: Judge) -> None:
    everything = "#include <assert.h>\n#include <bits/stdc++.h>\n"
    codes = [
        everything + "using namespace std;\n#define int long long\nsigned main() { int x = 3; cout << x; }\n",
        everything + '#pragma GCC optimize("O3")\n' + MAIN,
        everything + "int main() { std::cout << __LINE__; assert(false); }\n",
        everything + 'int main() { std::cout << 3; return "three"; }\n',
        "#include <iostream>\n" + MAIN.replace("vector", "unordered_set"),
        "#define vector no_such_name\n#include <bits/stdc++.h>\n#undef vector\n" + MAIN,
    ]
    with_it, without = judged(job, quick, *codes), judged(job, Judge(), *codes)

    def facts(results: list[ScoredCompletion]) -> list[tuple[object, ...]]:
        return [(each.reward, each.status, each.detail, each.stdout) for each in results]

    assert facts(with_it) == facts(without)
    assert [each.reward for each in with_it[:2]] == [1.0, 1.0]
    assert [each.status for each in with_it[2:5]] == [Status.CRASHED, Status.COMPILE_ERROR, Status.COMPILE_ERROR]


def test_it_is_read_and_no_program_can_write_it(job: Job, quick: Judge, connection: Connection) -> None:
    assert connection.prebuilt is not None
    there = connection.prebuilt.there
    writes = (
        "#include <bits/stdc++.h>\n#include <dirent.h>\nint main() {\n"
        f'  std::string top = "{there}"; int bad = 0, files = 0;\n'
        "  for (auto &each : std::filesystem::recursive_directory_iterator(top)) {\n"
        "    files++; std::error_code error;\n"
        "    if (std::ofstream(each.path(), std::ios::app)) bad++;\n"
        '    if (std::filesystem::remove(each.path(), error) || std::ofstream(top + "/new")) bad++;\n'
        "  }\n  std::cout << (files > 2 && !bad ? 3 : bad);\n}\n"
    )
    [result] = judged(job, quick, writes)
    assert result.reward == 1.0, (result.detail, result.stdout)
    # The compiler itself says which precompiled header it reads.
    [name] = [path.name for path in connection.prebuilt.here.iterdir() if not path.name.startswith(".")]
    script = (
        "cd /tmp && printf '#include <bits/stdc++.h>\\nint main() {}\\n' > main.cpp && "
        f"g++ {' '.join(FORM.compile[1:5])} -H -fsyntax-only -include {there}/{name}/everything.h main.cpp"
    )
    launch = job.launch(Command(("sh", "-c", script), b"", 60.0))
    [done] = job.wait_any()
    assert done is launch
    outcome = job.collect(launch)
    assert (outcome.exit_code, outcome.stderr.split(b"\n")[0]) == (0, f"! {there}/{name}/everything.h.gch".encode())


def test_a_header_that_the_compiler_refuses_costs_no_answer(job: Job, quick: Judge) -> None:
    class Refused(Headers):
        def quick_compile(self, form: object, command: list[str], source: str) -> list[str]:
            return [command[0], "-include", "/opt/gone/everything.h", *command[1:]]

    [right, wrong] = judged(job, Judge(headers=Refused(None)), "#include <bits/stdc++.h>\n" + MAIN, "int main( {}")
    assert right.reward == 1.0, right.detail
    assert wrong.status is Status.COMPILE_ERROR
    assert "gone" not in wrong.detail
