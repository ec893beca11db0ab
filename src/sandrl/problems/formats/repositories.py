"""Rows about repositories: an issue, and tests that must pass once it is solved; each becomes a task.

SWE-bench and its kin (Lite, Verified, Multilingual, SWE-Gym, SWE-smith, SWE-rebench) share their fields, and differ in
the fields about the image and the tests. Newer rows have all of them (`image`, `eval_script`, `log_parser`); for older
ones the tables here hold the facts that the programs of their authors hold. R2E-Gym and Multi-SWE-bench have fields of
their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from sandrl.errors import InputError
from sandrl.problems.formats.row import Format, FormatRow
from sandrl.problems.formats.texts import json_value
from sandrl.problems.problem import Problem
from sandrl.problems.tasks.log_parsers import END, START, SWEBENCH
from sandrl.problems.tasks.swe import CONDA, Repository
from sandrl.problems.tasks.task import Task

_PYTEST = "pytest -rA"
_PYTEST_PARSER = "parse_log_pytest"
_EDITABLE = "python -m pip install -e ."
_LOCALE = "; export LANG=en_US.UTF-8 LC_ALL=en_US.UTF-8 PYTHONIOENCODING=utf8 LANGUAGE=en_US:en"


class _Tests(NamedTuple):
    """How the tests of a repository of SWE-bench are run."""

    parser: str
    command: str = _PYTEST
    install: str = _EDITABLE


# fmt: off
_SWE_BENCH = {
    "astropy/astropy": _Tests("parse_log_astropy", "pytest -rA -vv -o console_output_style=classic --tb=no",
                              "python -m pip install -e .[test] --verbose"),
    "django/django": _Tests(
        "parse_log_django", "./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1"),
    "matplotlib/matplotlib": _Tests("parse_log_matplotlib"),
    "mwaskom/seaborn": _Tests("parse_log_seaborn", "pytest --no-header -rA"),
    "pallets/flask": _Tests("parse_log_flask"),
    "psf/requests": _Tests("parse_log_requests", install="python -m pip install ."),
    "pydata/xarray": _Tests("parse_log_xarray"),
    "pylint-dev/pylint": _Tests("parse_log_pylint"),
    "pytest-dev/pytest": _Tests("parse_log_pytest"),
    "scikit-learn/scikit-learn": _Tests(
        "parse_log_scikit", install="python -m pip install -v --no-use-pep517 --no-build-isolation -e ."),
    "sphinx-doc/sphinx": _Tests("parse_log_sphinx", "tox --current-env -epy39 -v --",
                                "python -m pip install -e .[test]"),
    "sympy/sympy": _Tests(
        "parse_log_sympy",
        "PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose"),
}
_SWE_GYM = frozenset({
    "getmoto/moto", "python/mypy", "pandas-dev/pandas", "dask/dask", "conan-io/conan", "pydantic/pydantic",
    "modin-project/modin", "iterative/dvc", "Project-MONAI/MONAI", "bokeh/bokeh", "facebookresearch/hydra",
})
_LANGUAGE_PARSERS = {"go": "parse_log_gotest", "golang": "parse_log_gotest", "rust": "parse_log_cargo"}
# fmt: on


class SweRow(FormatRow):
    """Rows of SWE-bench and of sets that have its fields.

    In rows of SWE-smith, `patch` makes the bug. A row may say more than its set does: `image_name`, `test_cmd`,
    `log_parser`, `eval_script`, `install_config`, `repo_directory`.
    """

    problem_statement: str
    FAIL_TO_PASS: Any
    PASS_TO_PASS: Any = None
    repo: str = ""
    base_commit: str | None = None
    patch: str | None = None
    test_patch: str | None = None
    version: str | None = None
    image_name: str | None = None
    docker_image: str | None = None
    image: str | None = None
    test_cmd: Any = None
    test_command: Any = None
    log_parser: str | None = None
    eval_script: str | None = None
    eval_type: str | None = None
    install_config: Any = None
    repo_directory: str | None = None

    def to_problem(self, name: str) -> Problem:
        if self.eval_type not in (None, "", "pass_and_fail"):
            raise InputError(
                f"is {self.eval_type!r:.40}: tests that are not named in the output count as passed, which is not"
                " supported",
                field="eval_type",
            )
        must_pass, must_keep = (_names(getattr(self, field), field) for field in ("FAIL_TO_PASS", "PASS_TO_PASS"))
        if not must_pass and not must_keep:
            raise InputError("names no test", field="FAIL_TO_PASS")
        image = self._image(name)
        config = json_value(self.install_config or {}, "install_config")
        if not isinstance(config, dict):
            raise InputError("must be an object, or JSON text of one", field="install_config")
        tests = self._tests(config, image, must_pass + must_keep)
        has_paths = all("::" in each for each in must_pass + must_keep)
        repository = Repository(
            name=name,
            format="swe-smith" if self._is_smith(image) else "swe-bench",
            image=image,
            instruction=_instruction(self.problem_statement, self.repo_directory or "/testbed"),
            parser=_parser(tests.parser, self.version, name),
            patch=self.patch or "",
            test_patch=self.test_patch or "",
            must_pass=must_pass,
            must_keep=must_keep,
            directory=self.repo_directory or "/testbed",
            command=tests.command,
            script=self.eval_script or "",
            files=_django_labels(self.test_patch or "") if self.repo == "django/django" else None,
            names_files=has_paths,
            activate="\n".join([*_commands(config.get("pre_test") or config.get("eval_commands")), CONDA])
            + (_LOCALE if self.repo == "django/django" else ""),
            install="" if self.eval_script else tests.install,
            makes_bug=self._is_smith(image),
            metadata={"repo": self.repo, "base_commit": self.base_commit or "", "version": self.version or ""},
        )
        return _problem(name, repository.to_task())

    def _is_smith(self, image: str) -> bool:
        return not self.test_patch and (self.repo.startswith("swesmith/") or "swesmith." in image)

    def _image(self, name: str) -> str:
        if given := self.image_name or self.docker_image or self.image:
            return given
        if self.repo in _SWE_GYM:
            return f"docker.io/xingyaoww/sweb.eval.x86_64.{name.replace('__', '_s_')}:latest".lower()
        owner = "swebench" if self.repo in _SWE_BENCH else "swerebench" if self.install_config else ""
        if not owner:
            raise InputError(
                "is missing, and cannot be derived: only images of SWE-bench, SWE-Gym and SWE-rebench can",
                field="image_name",
                hint="add the image of each row, as a reference of a registry or `dockerfile:DIR`",
            )
        return f"docker.io/{owner}/sweb.eval.x86_64.{name.replace('__', '_1776_')}:latest".lower()

    def _tests(self, config: Mapping[str, Any], image: str, names: tuple[str, ...]) -> _Tests:
        given = self.test_cmd or self.test_command or config.get("test_cmd")
        command = _text(given)
        parser = self.log_parser or _text(config.get("log_parser"))
        known = _SWE_BENCH.get(self.repo)
        if known is not None and self.version == "1.9" and self.repo == "django/django":
            known = known._replace(command="./tests/runtests.py --verbosity 2")
        paths = [each for each in names if "::" in each]
        looks_like_pytest = bool(paths) and all(re.match(r"[^\s:]+\.py::", each) for each in paths)
        if known is None:
            if not looks_like_pytest and not (parser and (command or self.eval_script)):
                missing = "log_parser" if not parser else "test_cmd"
                raise InputError(
                    "is missing: the names of the tests are not those of pytest, so their program must be named",
                    field=missing,
                    hint="add `log_parser`, a parser of the package swebench such as parse_log_gotest, and `test_cmd`"
                    " or `eval_script`",
                )
            known = _Tests(_PYTEST_PARSER, install="")
        install = _text(config.get("install")) if config else known.install
        return _Tests(parser or known.parser, command or known.command, install)


def _names(value: Any, field: str) -> tuple[str, ...]:
    names = json_value(value if value is not None else [], field)
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise InputError("must be a list of names of tests, or JSON text of one", field=field)
    return tuple(names)


def _text(value: object) -> str:
    return " && ".join(_commands(value))


def _commands(value: object) -> list[str]:
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [each for each in given if isinstance(each, str) and each.strip()]


# Some parsers differ by the version of the repository and by the row.
def _parser(parser: str, version: str | None, name: str) -> str:
    return f"{SWEBENCH}{parser.removeprefix(SWEBENCH)}@{version or ''}@{name}"


def _instruction(statement: str, directory: str) -> str:
    return (
        f"{statement.strip()}\n\nThe repository is in {directory}. Change its files so that this is solved. Tests that"
        " you do not see decide; changes to tests do not count."
    )


# As its test program takes them: the modules of tests, from the directory of tests.
def _django_labels(patch: str) -> tuple[str, ...]:
    paths = re.findall(r"^\+\+\+ b/tests/(\S+)\.py$", patch, re.MULTILINE)
    return tuple(dict.fromkeys(path.replace("/", ".") for path in paths))


def _problem(name: str, task: Task) -> Problem:
    return Problem(name, task.steps[0].instruction, task=task)


SWE_BENCH = Format("SWE-bench", (("problem_statement",), ("FAIL_TO_PASS",)), SweRow, is_python=False)


class R2eRow(FormatRow):
    """Rows of R2E-Gym: the image has the tests and the program that runs them, and the row how each must end."""

    problem_statement: str
    docker_image: str
    expected_output_json: Any
    repo_name: str = ""
    commit_hash: str | None = None

    def to_problem(self, name: str) -> Problem:
        expected = json_value(self.expected_output_json, "expected_output_json")
        if not isinstance(expected, dict):
            raise InputError("must be an object, or JSON text of one", field="expected_output_json")
        colours = re.compile("\x1b\\[\\d+m")
        names = tuple(
            colours.sub("", test).partition(" - ")[0]
            for test, status in expected.items()
            if status == "PASSED" and test
        )
        if not names:
            raise InputError("names no test that must pass", field="expected_output_json")
        repository = Repository(
            name=name,
            format="swe-r2e",
            image=self.docker_image,
            instruction=_instruction(self.problem_statement, "/testbed"),
            parser="r2e",
            must_pass=names,
            script=f"ln -sfn /r2e_tests r2e_tests\necho '{START}'\nbash run_tests.sh\necho '{END}'\n",
            activate="",
            kept=(".venv", "r2e_tests", "run_tests.sh"),
            hidden=("/r2e_tests", "/testbed/r2e_tests", "/testbed/run_tests.sh", "/run_tests.sh"),
            metadata={"repo": self.repo_name, "base_commit": self.commit_hash or ""},
        )
        return _problem(name, repository.to_task())


R2E_GYM = Format(
    "R2E-Gym",
    (("problem_statement",), ("docker_image",), ("expected_output_json",)),
    R2eRow,
    is_python=False,
    named=lambda value: "__".join(str(each) for field in ("repo_name", "commit_hash") if (each := value.get(field))),
)


def multi_swe_names(owner: object, repository: object, number: object) -> tuple[str, str]:
    """The names that a row of Multi-SWE-bench may have; the first unless it has one itself."""
    return f"{owner}__{repository}-{number}", f"{owner}/{repository}:pr-{number}"


class MultiSweRow(FormatRow):
    """Rows of Multi-SWE-bench and Multi-SWE-RL: the image has the patch of the tests and the program that runs them."""

    org: str
    repo: str
    number: int
    test_patch: str
    fix_patch: str | None = None
    title: str | None = None
    body: str | None = None
    resolved_issues: Any = None
    fixed_tests: Any = None
    f2p_tests: Any = None
    s2p_tests: Any = None
    n2p_tests: Any = None
    p2p_tests: Any = None
    lang: str | None = None
    language: str | None = None
    log_parser: str | None = None
    image_name: str | None = None

    def to_problem(self, name: str) -> Problem:
        fields = ("fixed_tests", "f2p_tests", "s2p_tests", "n2p_tests")
        must_pass = tuple(dict.fromkeys(test for field in fields for test in _keys(getattr(self, field), field)))
        if not must_pass:
            raise InputError("names no test", field="fixed_tests")
        language = (self.lang or self.language or "").lower()
        parser = self.log_parser or _LANGUAGE_PARSERS.get(language)
        if parser is None:
            raise InputError(
                f"is missing: tests of {language or 'an unnamed language'} are reported in a form of each repository",
                field="log_parser",
                hint="add `log_parser`, a parser of the package swebench such as parse_log_maven",
            )
        directory = f"/home/{self.repo}"
        scripts = tuple(f"/home/{each}" for each in ("fix.patch", "test.patch", "run.sh", "test-run.sh", "fix-run.sh"))
        repository = Repository(
            name=name,
            format="swe-multi",
            image=self.image_name or f"docker.io/mswebench/{self.org}_m_{self.repo}:pr-{self.number}".lower(),
            instruction=_instruction(self._statement(), directory),
            parser=_parser(parser, "", name),
            patch=self.fix_patch or "",
            test_patch=self.test_patch,
            must_pass=must_pass,
            must_keep=_keys(self.p2p_tests, "p2p_tests"),
            directory=directory,
            script=f"echo '{START}'\nbash /home/test-run.sh\necho '{END}'\n",
            activate="",
            hidden=scripts,
            metadata={"repo": f"{self.org}/{self.repo}"},
        )
        return _problem(name, repository.to_task())

    def _statement(self) -> str:
        issues = json_value(self.resolved_issues or [], "resolved_issues")
        texts = [
            "\n\n".join(str(each[part]) for part in ("title", "body") if each.get(part))
            for each in issues
            if isinstance(each, dict)
        ]
        found = "\n\n".join(filter(None, texts)) or "\n\n".join(filter(None, (self.title, self.body)))
        if not found:
            raise InputError("is missing", field="resolved_issues")
        return found


# Tests by name; tables of a hub have every name in each row, without a value.
def _keys(value: Any, field: str) -> tuple[str, ...]:
    tests = json_value(value or {}, field)
    if not isinstance(tests, dict):
        raise InputError("must be an object whose keys are names of tests", field=field)
    return tuple(name for name, each in tests.items() if each)


MULTI_SWE = Format(
    "Multi-SWE-bench",
    (("org",), ("repo",), ("number",), ("test_patch",)),
    MultiSweRow,
    is_python=False,
    named=lambda value: multi_swe_names(value["org"], value["repo"], value["number"])[0],
)
