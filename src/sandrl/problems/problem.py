"""The problem: one shape for every source.

MBPP's assert lists, HumanEval's `check(candidate)` and stdin programs all become checks of one of three kinds here, so
that only the loaders depend on the source of a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from sandrl.bounds import seconds_problem
from sandrl.errors import InputError
from sandrl.problems.calls import Call, Comparison, function_of
from sandrl.problems.checkers import Checker
from sandrl.problems.checks import checks_of, name_of
from sandrl.problems.fields import as_tuple, check_text
from sandrl.problems.languages import PYTHON, language_named
from sandrl.problems.math_answers import MATH_CHECKER, MATH_VERIFY, boxed
from sandrl.problems.problem_files import file_name, file_rows, files_of
from sandrl.problems.tasks.task import Task

EXIT_STATUS: Literal["exit_status"] = "exit_status"
"""The weakest check: the program runs and exits 0."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a program: an input, and the output that is expected.

    Attributes:
        stdin: The text that the program reads from standard input.
        stdout: The text that it must print to standard output.

    Raises:
        InputError: If a field is not a string; `field` of the error names it.
    """

    stdin: str
    stdout: str

    def __post_init__(self) -> None:
        check_text("stdin", self.stdin)
        check_text("stdout", self.stdout)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest difference between a number and the expected number; one of the two limits is enough.

    Attributes:
        absolute: The largest absolute difference.
        relative: The largest difference as a fraction of the expected number.
        words: Whether outputs are compared word by word, with blanks and line ends as separators only. If no difference
            is allowed, words are compared as text.
    """

    absolute: float = 0.0
    relative: float = 0.0
    words: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A task for a model, with checks of exactly one kind: `tests`, `cases`, `calls`, `answer`, or `check`.

    Lists are accepted for tuples, and a dictionary for a case; for a checker its source, or a dictionary; for files a
    dictionary of texts or bytes by path.

    Attributes:
        task_id: The name of the problem; completions refer to it.
        prompt: The task, as the model receives it.
        tests: Python snippets that raise an error unless the code is right; each is one check. Test functions and
            classes in them are split into single checks, and definitions alone become part of the next check.
        cases: Runs of the code as a program; each is one check.
        calls: Calls of the function `fn`, with their expected values; each is one check. If no call has an expected
            value, each must return the value that the reference returns; a mix of both is refused.
        fn: The function that `calls` call: `name`, or `Class.name` for a method of an object that is created without
            arguments. A completion may also define the function `name` as a method of a class `Solution`.
        comparison: How calls compare the returned value with the expected one.
        tolerance: How cases and calls compare numbers; None compares them exactly.
        check: `exit_status` if a completion passes when it runs to its end and exits with 0.
        setup: Python code that the tests need. It runs after the completion and may use names that the completion
            defines (MBPP builds trees of the completion's own class); it is also tried before the completion, which may
            use its names. So a completion may see it, and expected values belong in the tests.
        entry_point: The name of the function or class that the task requests, if it requests one.
        reference: A solution that is known to be correct.
        timeout_seconds: Wall time in seconds for all checks, if the problem needs its own limit.
        check_timeout_seconds: Wall time in seconds for each check, if the problem needs its own limit.
        prelude: Python code that runs before the completion, in its namespace; empty for none.
        starter_code: Code that an answer may continue or must follow, if the prompt does not contain it.
        packages: Packages that a completion or the checks import, as modules or as pip writes requirements; where
            sandboxes are on this machine, they are installed for the job. If a sandbox lacks one, no
            completion of the problem has a reward.
        language: The language of completions, by a name or an alias of `sandrl.problems.languages`; stored by its name
            there. In a language other than Python, `setup`, code and a test form one program, in this order, which
            passes if it exits with 0.
        checker: Decides whether the output of a case is right, for cases with several right outputs; it replaces the
            comparison with `stdout`.
        checker_timeout_seconds: Wall time in seconds of the checker for one case; None for the default,
            `sandrl.problems.checkers.CHECKER_SECONDS`.
        files: Paths and contents of files that exist in the working directory before the code runs. Each case has a
            directory of its own with these files.
        input_file: With cases: the name of a file in the working directory that also contains the input of the case.
        output_file: With cases: the name of a file that the program may write its output to; if the program does not
            create the file, its standard output counts.
        memory_bytes: The memory in bytes that each process of the completion may use, in addition to that of a bare
            interpreter.
        image: The image of the sandboxes that judge completions, as `--image` takes it; None for that of the command.
            What `packages` names must be in it.
        answer: The right answer of a mathematical problem, as text or LaTeX: the last answer in the text of a
            completion must be equal to it, as math-verify decides. It is the output of a single case with a checker,
            which follow from it and cannot be given.
        task: The machine and the verifier of a problem that is a task; it has no other checks.

    Raises:
        InputError: If the problem has no check or checks of several kinds, or a field is wrong; `field` of the error
            names it.
    """

    task_id: str
    prompt: str
    tests: tuple[str, ...] = ()
    cases: tuple[Case, ...] = ()
    tolerance: Tolerance | None = None
    check: Literal["exit_status"] | None = None
    setup: str = ""
    entry_point: str | None = None
    reference: str | None = None
    timeout_seconds: float | None = None
    check_timeout_seconds: float | None = None
    prelude: str = ""
    starter_code: str = ""
    fn: str | None = None
    calls: tuple[Call, ...] = ()
    packages: tuple[str, ...] = ()
    language: str = PYTHON
    comparison: Comparison = Comparison.PLAIN
    checker: Checker | None = None
    checker_timeout_seconds: float | None = None
    files: tuple[tuple[str, bytes], ...] = ()
    input_file: str | None = None
    output_file: str | None = None
    memory_bytes: int | None = None
    image: str | None = None
    answer: str | None = None
    task: Task | None = None

    def __post_init__(self) -> None:
        for name in ("task_id", "prompt", "setup", "prelude", "starter_code", "language"):
            check_text(name, getattr(self, name))
        for name in ("entry_point", "reference", "fn", "image", "answer"):
            check_text(name, getattr(self, name), is_optional=True)
        if self.answer is not None:
            self._take_answer(self.answer)
        if self.image is not None and not self.image.strip():
            raise InputError("must name an image; leave it out for the image of the command", field="image")
        object.__setattr__(self, "tests", as_tuple("tests", self.tests, "strings of Python code"))
        for name, make in (("packages", _package), ("cases", _case), ("calls", _call)):
            given = as_tuple(name, getattr(self, name), name)
            object.__setattr__(self, name, tuple(make(f"{name}[{n}]", each) for n, each in enumerate(given)))
        if (self.fn is None) != (not self.calls):
            field, other = ("fn", "calls") if self.calls else ("calls", "fn")
            raise InputError(f"is missing, and {other} is given", field=field)
        if self.fn is not None:
            _, name = function_of(self.fn)
            object.__setattr__(self, "entry_point", self.entry_point or (self.fn if "." in self.fn else name))
        self._check_calls()
        self._check_tests()
        self._check_kinds()
        self._check_checker()
        self._check_files()
        for name in ("timeout_seconds", "check_timeout_seconds", "checker_timeout_seconds"):
            _check_seconds(name, getattr(self, name))
        _check_bytes("memory_bytes", self.memory_bytes)
        object.__setattr__(self, "language", language_named(self.language).name)
        if not self.is_python:
            self._check_program()
        elif self.tests:
            checks = checks_of(self.tests, setup=self.setup, entry_point=self.entry_point)
            object.__setattr__(self, "tests", checks)

    # A hash that does not read all checks: a problem may have many megabytes of them.
    def __hash__(self) -> int:
        return hash((self.task_id, self.prompt))

    def _take_answer(self, answer: str) -> None:
        if not answer.strip():
            raise InputError("is empty", field="answer")
        derived = {"cases": (Case("", answer),), "checker": Checker(MATH_CHECKER), "packages": (MATH_VERIFY,)}
        for name, value in derived.items():
            given = getattr(self, name)
            if given and given != value:
                raise InputError("has no effect beside `answer`, which says how it is judged", field=name)
            object.__setattr__(self, name, value)
        if self.language != PYTHON:
            raise InputError("has no effect beside `answer`, which is not a program", field="language")
        object.__setattr__(self, "reference", self.reference or boxed(answer))

    def _check_calls(self) -> None:
        try:
            object.__setattr__(self, "comparison", Comparison(self.comparison))
        except ValueError:
            known = ", ".join(Comparison)
            raise InputError(f"must be one of {known}, not {self.comparison!r:.40}", field="comparison") from None
        if self.comparison is not Comparison.PLAIN and not self.calls:
            raise InputError("has an effect on calls only, and this problem has none", field="comparison")
        if not self.asks_reference:
            return
        if any(call.expected is not None for call in self.calls):
            raise InputError(
                "some calls have an expected value and some do not; give all of them one, or none", field="calls"
            )
        if self.reference is None:
            raise InputError(
                "is missing: calls without an expected value are compared with the reference", field="reference"
            )

    def _check_tests(self) -> None:
        for position, test in enumerate(self.tests):
            check_text(f"tests[{position}]", test)

    def _check_program(self) -> None:
        for name, what in (("fn", "calls of functions are"), ("prelude", "preludes are"), ("packages", "packages are")):
            if getattr(self, name):
                raise InputError(f"{what} supported for Python only, and the language is {self.language}", field=name)
        for position, test in enumerate(self.tests):
            if not test.strip():
                raise InputError("is empty, so it checks nothing", field=f"tests[{position}]")

    def _check_kinds(self) -> None:
        if self.check not in (None, EXIT_STATUS):
            raise InputError(f"must be 'exit_status' or None, not {self.check!r}", field="check")
        kinds = [name for name in ("tests", "cases", "calls", "check", "task") if getattr(self, name)]
        if not kinds:
            raise InputError(
                f"the problem {self.task_id!r} has no check",
                hint='add `tests` (asserts), `cases` (stdin and stdout), `answer`, or `check`: "exit_status"',
            )
        if len(kinds) > 1:
            raise InputError(
                f"the problem {self.task_id!r} has checks of several kinds ({', '.join(kinds)}); only one is allowed",
                hint="write a separate problem for each kind",
            )
        if self.tolerance is None:
            return
        if not isinstance(self.tolerance, Tolerance):
            raise InputError(f"must be a Tolerance or None, not {type(self.tolerance).__name__}", field="tolerance")
        if not (self.cases or self.calls):
            raise InputError("has an effect on cases and calls only, and this problem has none", field="tolerance")
        if not (self.tolerance.absolute or self.tolerance.relative or self.tolerance.words):
            raise InputError("allows no difference: set `absolute` or `relative`", field="tolerance")
        if self.tolerance.words and not self.cases:
            raise InputError("has an effect on cases only: a call returns a value, not words", field="tolerance.words")

    def _check_checker(self) -> None:
        if self.checker is None:
            if self.checker_timeout_seconds is not None:
                raise InputError("has an effect with a `checker` only", field="checker_timeout_seconds")
            return
        object.__setattr__(self, "checker", Checker.of(self.checker))
        if not self.cases:
            raise InputError("requires `cases` with stdin and stdout", field="checker")
        if self.tolerance is not None:
            raise InputError("has no effect: the `checker` compares the outputs", field="tolerance")

    def _check_files(self) -> None:
        taken = "solution.py"
        object.__setattr__(self, "files", files_of(self.files, taken))
        for name in ("input_file", "output_file"):
            if getattr(self, name) is not None and not self.cases:
                raise InputError("requires `cases` with stdin and stdout", field=name)
            object.__setattr__(self, name, file_name(getattr(self, name), taken, name))
        if self.input_file is not None and self.input_file in dict(self.files):
            raise InputError("is also one of its `files`", field="input_file")

    @property
    def kind(self) -> str:
        """The kind of its checks: `tests`, `cases`, `calls`, `answer`, `exit_status` or `task`."""
        if self.task is not None:
            return "task"
        if self.answer is not None:
            return "answer"
        if self.check is not None:
            return self.check
        return "cases" if self.cases else "calls" if self.calls else "tests"

    @property
    def is_python(self) -> bool:
        return self.language == PYTHON

    @property
    def asks_reference(self) -> bool:
        """Whether its calls must return the values of its reference, which has to run first."""
        return any(call.expected is None for call in self.calls)

    @property
    def check_names(self) -> tuple[str, ...]:
        """The name of each check: the name of a test function or of a call; empty for other checks."""
        if self.calls:
            return tuple(call.name for call in self.calls)
        return tuple(map(name_of, self.tests)) or ("",) * self.check_count

    @property
    def content(self) -> dict[str, Any]:
        """All fields as plain values, for a digest of them; a task is its own digest."""
        content = asdict(self)
        if self.files:
            content["files"] = file_rows(self.files)
        if self.answer is None:
            del content["answer"]
        del content["task"]
        return content if self.task is None else content | {"task": self.task.digest}

    @property
    def check_content(self) -> dict[str, Any]:
        """All fields that determine its checks, as plain values, for a digest of them."""
        return {
            "tests": self.tests,
            "cases": [(case.stdin, case.stdout) for case in self.cases],
            "fn": self.fn,
            "calls": [(call.arguments, call.expected, call.name) for call in self.calls],
            "comparison": self.comparison.value,
            "tolerance": None if self.tolerance is None else asdict(self.tolerance),
            "check": self.check,
            "setup": self.setup,
            "entry_point": self.entry_point,
            "language": self.language,
            "checker": None if self.checker is None else asdict(self.checker),
            "files": file_rows(self.files),
            "input_file": self.input_file,
            "output_file": self.output_file,
            **({} if self.task is None else {"task": self.task.digest}),
        }

    @property
    def check_count(self) -> int:
        return (
            1
            if self.check is not None or self.task is not None
            else len(self.cases) or len(self.calls) or len(self.tests)
        )


def _package(field: str, name: Any) -> Any:
    check_text(field, name)
    if not name.isidentifier() and not _is_requirement(name):
        raise InputError(f"must be a module or a package, as in numpy or pandas==2.2, not {name!r:.40}", field=field)
    return name


def _is_requirement(text: str) -> bool:
    # Few problems name one, and this takes 10 ms to load.
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        return Requirement(text).url is None
    except InvalidRequirement:
        return False


def _call(field: str, given: Any) -> Call:
    if isinstance(given, Call):
        return given
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InputError(f"must be a Call or [arguments, expected value], not {given!r:.60}", field=field)
    try:
        return Call.of(given[0], given[1])
    except InputError as error:
        raise InputError(error.reason, field=f"{field}{error.field}") from None


def _case(field: str, given: Any) -> Case:
    if isinstance(given, Case):
        return given
    if not isinstance(given, Mapping) or given.keys() - {"stdin", "stdout"} or "stdout" not in given:
        expected = 'a Case or a dictionary {"stdin": …, "stdout": …}'
        raise InputError(f"must be {expected}, not {given!r:.60}", field=field)
    try:
        return Case(given.get("stdin", ""), given["stdout"])
    except InputError as error:
        raise InputError(error.reason, field=f"{field}.{error.field}") from None


def _check_bytes(field: str, size: Any) -> None:
    if size is None:
        return
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size < 1 << 62:
        raise InputError(f"must be a number of bytes above 0, or None, not {size!r:.40}", field=field)


def _check_seconds(field: str, seconds: Any) -> None:
    if seconds is None:
        return
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise InputError(f"must be a number of seconds or None, not {seconds!r:.40}", field=field)
    if problem := seconds_problem(seconds):
        raise InputError(problem, field=field)
