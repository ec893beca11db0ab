"""Dockerfiles are read as BuildKit reads them, and what is not supported is refused with its line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandrl.errors import InputError
from sandrl.runtime.images.dockerfile.instructions import (
    Copy,
    Dockerfile,
    HealthCheck,
    Instruction,
    Program,
    Run,
    Setting,
    Variables,
    parse_dockerfile,
)
from sandrl.runtime.images.dockerfile.patterns import Ignored, compiled
from sandrl.runtime.images.dockerfile.statements import read_statements
from sandrl.runtime.images.dockerfile.words import expand, expand_document


def _file(text: str) -> Dockerfile:
    return parse_dockerfile(text, "Dockerfile")


def _only(text: str) -> Instruction:
    (instruction,) = _file(f"FROM base\n{text}").stages[0].instructions
    return instruction


def test_comments_and_blank_lines_within_continued_lines_are_left_out() -> None:
    run = _only("RUN a && \\\n  # comment \\\n\n  b \\\n# more\n  && c\n")
    assert isinstance(run, Run)
    assert (run.command, run.line, run.text) == ("a &&   b   && c", 2, "RUN a && b && c")


def test_a_doubled_escape_character_at_the_end_continues_nothing() -> None:
    assert [each.rest for each in read_statements("RUN a \\\\\nRUN b").all] == ["a \\\\", "b"]


def test_the_line_of_each_instruction_is_its_first() -> None:
    file = _file("\n# c\nFROM a\n\nRUN x \\\n y\nENV A=1\n")
    assert [each.line for each in (file.stages[0].start, *file.stages[0].instructions)] == [3, 5, 7]


def test_the_escape_directive_makes_backslashes_plain() -> None:
    file = _file("# escape=`\nFROM a\nENV A=c:\\dir\nRUN a `\n b\n")
    env, run = file.stages[0].instructions
    assert isinstance(env, Variables)
    assert isinstance(run, Run)
    assert (expand(env.pairs[0][1] or "", {}, file.escape), run.command) == ("c:\\dir", "a  b")


def test_a_directive_after_a_comment_is_a_comment() -> None:
    assert _file("# hello\n# escape=`\nFROM a\n").escape == "\\"


def test_here_documents_of_a_command_are_read_to_their_ends() -> None:
    run = _only("RUN <<EOF cat <<-'B'\na $X\nEOF\n\tb\n\tB\nCMD x\n".replace("CMD x\n", ""))
    assert isinstance(run, Run)
    assert [(each.name, each.content, each.expands) for each in run.documents] == [
        ("EOF", "a $X\n", True),
        ("B", "b\n", False),
    ]


def test_a_here_document_may_hold_what_looks_like_instructions_and_comments() -> None:
    file = _file("FROM a\nRUN <<EOF\n# kept\nFROM b\n\n  x \\\nEOF\nUSER u\n")
    run, user = file.stages[0].instructions
    assert isinstance(run, Run)
    assert isinstance(user, Setting)
    assert (run.documents[0].content, user.line) == ("# kept\nFROM b\n\n  x \\\n", 8)


def test_a_shift_or_a_quoted_mark_begins_no_here_document() -> None:
    for text in ("RUN echo $((1<<2))", "RUN cat <<<x", "RUN echo '<<EOF'", 'RUN ["cat", "<<EOF"]'):
        run = _only(text)
        assert isinstance(run, Run)
        assert run.documents == ()


def test_options_of_copy_and_its_forms() -> None:
    copy = _only('COPY --from=one --chown=a:b --chmod=755 --exclude=*.x --exclude=y --parents --link ["a b", "/c d/"]')
    assert isinstance(copy, Copy)
    assert (copy.origin, copy.owner, copy.mode, copy.excluded) == ("one", "a:b", "755", ("*.x", "y"))
    assert (copy.sources, copy.destination, copy.keeps_parents) == (("a b",), "/c d/", True)


def test_sources_may_be_here_documents() -> None:
    copy = _only('COPY <<a.txt <<"b" f /to/\none\na.txt\ntwo $X\nb\n')
    assert isinstance(copy, Copy)
    assert copy.sources == ("<<a.txt", '<<"b"', "f")
    assert {word: (each.content, each.expands) for word, each in copy.documents.items()} == {
        "<<a.txt": ("one\n", True),
        '<<"b"': ("two $X\n", False),
    }


def test_programs_are_texts_for_a_shell_or_lists() -> None:
    assert [
        each.command
        for each in _file('FROM a\nCMD ["x", "y z"]\nCMD [x]\nENTRYPOINT  a  b \n').stages[0].instructions
        if isinstance(each, Program)
    ] == [("x", "y z"), "[x]", "a  b"]


def test_mounts_have_their_types_and_other_names_of_options() -> None:
    run = _only("RUN --mount=src=a,dst=/b,ro --mount=type=cache,target=/c,sharing=locked --mount=type=secret,id=s x")
    assert isinstance(run, Run)
    assert [(each.kind, dict(each.options)) for each in run.mounts] == [
        ("bind", {"source": "a", "target": "/b", "readonly": "true"}),
        ("cache", {"target": "/c", "sharing": "locked"}),
        ("secret", {"id": "s"}),
    ]


def test_a_health_check_has_its_times_in_nanoseconds() -> None:
    check = _only("HEALTHCHECK --interval=1m30s --start-period=500ms --retries=3 CMD curl x")
    assert isinstance(check, HealthCheck)
    assert check.document == {
        "Test": ["CMD-SHELL", "curl x"],
        "Interval": 90 * 10**9,
        "StartPeriod": 5 * 10**8,
        "Retries": 3,
    }


def test_stages_are_found_by_name_and_number_before_another() -> None:
    file = _file("FROM a AS One\nFROM b\nFROM one AS last\n")
    assert [file.stage(each) for each in ("one", "ONE", "1", "last", "3", "none")] == [0, 0, 1, 2, None, None]
    assert file.stage("last", before=2) is None


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("FROM a\nONBUILD RUN x\n", 2, "ONBUILD is not supported"),
        ("FROM a\nRUNN x\n", 2, "'RUNN' is not an instruction"),
        ("RUN x\nFROM a\n", 1, "before the first FROM"),
        ("# nothing\n", None, "has no FROM"),
        ("FROM a AS\n", 1, "FROM needs IMAGE"),
        ("FROM a\n\nRUN --mount=type=ssh x\n", 3, "type 'ssh'"),
        ("FROM a\nRUN --mount=type=cache,target=/a,from=b x\n", 2, "'from' of a mount"),
        ("FROM a\nRUN --network=host x\n", 2, "--network=host"),
        ("FROM a\nRUN --security=insecure x\n", 2, "--security"),
        ("FROM a\nRUN --device=gpu x\n", 2, "--device of RUN"),
        ("FROM a\nCOPY --chmod=u+x a b\n", 2, "octal"),
        ("FROM a\nCOPY a b c\n", 2, "several sources"),
        ("FROM a\nCOPY a\n", 2, "SOURCE … DESTINATION"),
        ("FROM a\nCOPY --from=$x a b\n", 2, "cannot have variables"),
        ("FROM a\nADD git@host:x.git /x\n", 2, "git"),
        ("FROM a\nADD --from=b a b\n", 2, "--from of ADD"),
        ("FROM a\nRUN <<EOF\nx\n", 2, "has no end"),
        ("FROM a\nENV\n", 2, "nothing after it"),
        ("FROM a\nENV A\n", 2, "has no value"),
        ("FROM a\nENV A=1 B\n", 2, "is not NAME=VALUE"),
        ("FROM a\nARG 1A=2\n", 2, "not the name of a variable"),
        ("FROM a\nSHELL sh -c\n", 2, "array of strings"),
        ("FROM a\nHEALTHCHECK --interval=5 CMD x\n", 2, "is not a duration"),
        ("FROM a\nUSER a b\n", 2, "USER needs one name"),
        ("# escape=x\nFROM a\n", 1, "escape character"),
        ("# syntax=example.org/own\nFROM a\n", 1, "only that of docker/dockerfile"),
        ("# escape=`\n# escape=`\nFROM a\n", 2, "given twice"),
    ],
)
def test_what_is_not_supported_is_refused_with_its_line(text: str, line: int | None, words: str) -> None:
    with pytest.raises(InputError) as refused:
        _file(text)
    assert (refused.value.path, refused.value.line) == ("Dockerfile", line)
    assert words in refused.value.message


VARIABLES = {"A": "1", "E": "", "P": "/usr/local/bin/x.tar.gz"}


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$A", "1"),
        ("${A}b", "1b"),
        ("$AB", ""),
        ("$$A", "A"),
        ("\\$A", "$A"),
        ("'$A'", "$A"),
        ('"$A b"', "1 b"),
        ('"a\\"b\\n"', 'a"b\\n'),
        ("a\\ b", "a b"),
        ("${Z:-d}", "d"),
        ("${E:-d}", "d"),
        ("${E-d}", ""),
        ("${Z-d}", "d"),
        ("${A:+x}", "x"),
        ("${E:+x}", ""),
        ("${E+x}", "x"),
        ("${Z:-${A:+in ${A}}}", "in 1"),
        ("${Z:-a\\}b}", "a}b"),
        ('${Z:-"a b"}', "a b"),
        ("${P#*/}", "usr/local/bin/x.tar.gz"),
        ("${P##*/}", "x.tar.gz"),
        ("${P%.*}", "/usr/local/bin/x.tar"),
        ("${P%%.*}", "/usr/local/bin/x"),
        ("${P/local/l}", "/usr/l/bin/x.tar.gz"),
        ("${P//\\//-}", "-usr-local-bin-x.tar.gz"),
        ("a$", "a$"),
        ("100%", "100%"),
    ],
)
def test_variables_have_the_values_that_a_shell_gives_them(text: str, expanded: str) -> None:
    assert expand(text, VARIABLES) == expanded


@pytest.mark.parametrize("text", ["${A", "${A:x}", "${}", "'a", '"a', "${Z:?needed}", "${A:-"])
def test_words_that_are_malformed_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        expand(text, VARIABLES)


def test_quotes_of_here_documents_stay() -> None:
    assert expand_document("'$A' \"b\" \\$A \\n", VARIABLES) == "'1' \"b\" $A \\n"


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("*.log", ["a.log", ".log"], ["d/a.log", "a.logs"]),
        ("**/*.log", ["a.log", "d/e/a.log"], ["a"]),
        ("a/**", ["a/b", "a/b/c"], ["ab"]),
        ("**/b/*", ["a/b/c", "b/c"], ["a/b", "a/b/c/d"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/b/c"], ["a/c"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("[a-c]x", ["bx"], ["dx"]),
        ("[^a]x", ["bx"], ["ax"]),
        ("a\\*", ["a*"], ["ab"]),
    ],
)
def test_patterns_of_paths(pattern: str, fitting: list[str], others: list[str]) -> None:
    assert [each for each in (*fitting, *others) if compiled(pattern).fits(each)] == fitting


def test_the_last_line_of_an_ignore_file_that_fits_decides() -> None:
    ignored = Ignored.parse(["# comment", "", "*.md", "!README.md", "/build/", "!build/kept", "../x", "."])
    left_out = [each for each in ("a.md", "README.md", "build/a", "build/kept/b", "src/a") if ignored.leaves_out(each)]
    assert left_out == ["a.md", "build/a"]


HOSTILE = [
    "RUN " + "${A:-" * 100_000,
    "ENV A=" + "${A:-" * 1_000 + "}" * 1_000,
    "RUN " + "<<A " * 10_000,
    "COPY " + "[" * 100_000 + " b",
    "CMD " + "[" * 100_000,
    "ENV " + "a=1 " * 100_000,
    "RUN " + "a \\\n" * 200_000,
    "\\\n" * 200_000,
    "RUN " + "--mount=type=bind,target=/a " * 20_000 + "x",
    "RUN x\n" * 200_000,
    "LABEL " + "a" * 3_000_000 + "=1",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_files_are_read_or_refused(text: str) -> None:
    try:
        file = _file(f"FROM a\n{text}\n")
        for each in file.stages[0].instructions:
            for _, value in each.pairs if isinstance(each, Variables) else ():
                expand(value or "", {})
    except InputError:
        pass


def test_values_that_grow_without_end_are_refused() -> None:
    with pytest.raises(InputError, match="longer than"):
        expand("$A" * 10_000, {"A": "x" * 1000})


def test_patterns_with_many_stars_are_matched_in_time() -> None:
    assert not compiled("*a" * 500 + "b").fits("a" * 4000)
    assert not compiled("**/a/" * 500 + "b").fits("a/" * 1000 + "c")
    with pytest.raises(InputError, match="two"):
        expand("${P#" + "*a" * 50 + "b}", {"P": "a" * 4000})


@given(st.text(alphabet=" \n\t\\\"'$<>{}[]#=-:EOFRUNCPYabc,/", max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(InputError):
        assert _file(f"FROM a\n{text}").stages
