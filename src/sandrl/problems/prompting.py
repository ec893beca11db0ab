"""How a model is asked: the system message, the template around a problem, and examples of other problems.

Every command that asks a model makes its conversations here, so an evaluation asks as the training did. Examples are
chosen once, by a seed of their own, and are the same for all problems; a problem is never its own example.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sandrl.config.words import NO_SYSTEM_PROMPT, OWN_TEMPLATE, PLAIN_TEMPLATE, Extraction
from sandrl.errors import InputError, UsageError
from sandrl.files import read_regular
from sandrl.jsonl import BadRow, read_rows
from sandrl.problems.loading import Reading, load_problems
from sandrl.problems.problem import Problem
from sandrl.problems.prompts import (
    ANSWER_INSTRUCTION,
    SHOWN_TESTS,
    asked_of,
    fenced,
    render_prompt,
    shown_checks,
)

if TYPE_CHECKING:
    from sandrl.config.episodes import EpisodesConfig
    from sandrl.config.eval import EvalConfig
    from sandrl.config.grpo import GrpoConfig

    _Configuration: TypeAlias = EpisodesConfig | EvalConfig | GrpoConfig

_MOST_TEMPLATE_BYTES = 1 << 20
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}|\{(\w+)\}")
_ANSWERS = ("completion", "answer", "response", "output")
_CHECKS = frozenset({"tests", "cases", "test", "test_list", "check"})


@dataclass(frozen=True, slots=True)
class Example:
    """A question with its answer, which is empty for the reference of `problem`."""

    prompt: str
    answer: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class Prompting:
    """How problems are asked.

    Attributes:
        system_prompt: The system message; None for that of the command, empty for none.
        template: The text around a problem, with placeholders; None for the problem alone.
        examples: Examples with different prompts, one more than that if there are as many.
        chat_template: The text of the file of a chat template; None if none is named.
    """

    show_tests: int = SHOWN_TESTS
    system_prompt: str | None = None
    template: str | None = None
    count: int = 0
    examples: tuple[Example, ...] = ()
    chat_template: str | None = None

    @classmethod
    def of(cls, config: _Configuration, problems: Mapping[str, Problem], reading: Reading | None = None) -> Prompting:
        """How a command's configuration asks; examples are from `problems` unless it names others."""
        system = "" if config.system_prompt == NO_SYSTEM_PROMPT else _plain(config.system_prompt)
        examples = tuple(_chosen(config, problems, reading or {})) if config.few_shot else ()
        chat = _template(config.chat_template)
        return cls(config.show_tests, system, _plain(config.prompt_template), config.few_shot, examples, chat)

    def messages(
        self, problem: Problem, *, instruction: str = ANSWER_INSTRUCTION, extraction: Extraction | None = None
    ) -> list[dict[str, str]]:
        """The conversation that a model is to continue; Python in the instruction becomes what answers the problem."""
        said = asked_of(problem, instruction) if self.system_prompt is None else self.system_prompt
        system = self._filled(said, problem) if self.system_prompt else said
        is_tagged = extraction in (Extraction.ANSWER, Extraction.EXACT) or "<answer>" in system
        messages = [{"role": "system", "content": system}] if system else []
        others = [each for each in self.examples if not _is_of(each, problem)]
        for example in others[: self.count]:
            messages += [
                {"role": "user", "content": example.prompt if example.problem is None else self.text(example.problem)},
                {"role": "assistant", "content": _answer(example, is_tagged=is_tagged)},
            ]
        return [*messages, {"role": "user", "content": self.text(problem)}]

    def text(self, problem: Problem) -> str:
        if self.template is None:
            return render_prompt(problem, show_tests=self.show_tests).text
        return self._filled(self.template, problem)

    def content(self) -> list[Any]:
        """What of it stands in files that may change: what a digest is made of."""
        examples = [[each.prompt, each.answer, each.problem and each.problem.reference] for each in self.examples]
        return examples + ([] if self.chat_template is None else [self.chat_template])

    def _filled(self, template: str, problem: Problem) -> str:
        values = _values(problem, self.show_tests)

        def value(found: re.Match[str]) -> str:
            # Other braces are text: a template may have code in it.
            return values.get(found[1] or found[2], found[0])

        return _PLACEHOLDER.sub(value, template)


def _values(problem: Problem, show_tests: int) -> dict[str, str]:
    tests, cases = shown_checks(problem, show_tests)
    shown = [*tests, *(f"{case.stdin}\n{case.stdout}" for case in cases)]
    return {
        "prompt": render_prompt(problem, show_tests=show_tests).text,
        "task": problem.prompt.strip("\n"),
        "task_id": problem.task_id,
        "tests": "\n".join(each.strip("\n") for each in shown),
        "entry_point": problem.entry_point or "",
        "starter_code": problem.starter_code.strip("\n"),
        "language": problem.language,
    }


def _template(name: str | None) -> str | None:
    if name is None or name in (OWN_TEMPLATE, PLAIN_TEMPLATE):
        return None
    try:
        return read_regular(name, _MOST_TEMPLATE_BYTES).decode()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not text in UTF-8"
        hint = f"`chat_template` is {OWN_TEMPLATE}, {PLAIN_TEMPLATE}, or a file with a Jinja template"
        message = f"the chat template cannot be read: {reason}"
        raise InputError(message, path=name, hint=hint, fields=("chat_template",)) from error


# A text of a configuration, in which two `@` at the beginning stand for one.
def _plain(text: str | None) -> str | None:
    return text[1:] if text is not None and text.startswith("@@") else text


def _is_of(example: Example, problem: Problem) -> bool:
    if example.problem is not None and example.problem.task_id == problem.task_id:
        return True
    return _words(example.prompt) == _words(problem.prompt)


def _words(text: str) -> str:
    return " ".join(text.split())


def _answer(example: Example, *, is_tagged: bool) -> str:
    if example.problem is None:
        return example.answer
    code = (example.problem.reference or "").strip("\n")
    return f"<answer>\n{code}\n</answer>" if is_tagged else fenced(code, example.problem.language)


# Examples with different prompts, one more than asked for, because one of them may be the problem itself.
def _chosen(config: _Configuration, problems: Mapping[str, Problem], reading: Reading) -> Iterator[Example]:
    source = config.few_shot_from
    written = None if source is None else _written(Path(source))
    pool: Mapping[str, Problem] = problems
    if source is not None and written is None:
        pool = load_problems(source, **reading).problems
    names: list[Any] = list(pool) if written is None else list(range(len(written)))
    random.Random(f"few-shot {config.few_shot_seed}").shuffle(names)
    seen: set[str] = set()
    has_tasks = False
    for name in names:
        if written is None and pool[name].reference is None:
            has_tasks = has_tasks or pool[name].task is not None
            continue
        example = Example(pool[name].prompt, problem=pool[name]) if written is None else written[name]
        if (key := _words(example.prompt)) in seen:
            continue
        seen.add(key)
        yield example
        if len(seen) > config.few_shot:
            return
    needed = config.few_shot + (source is None)
    if len(seen) < needed:
        where = "the problems" if source is None else f"{source!r}"
        raise UsageError(
            f"few_shot: {where} have {len(seen)} different examples with a reference solution, and {needed} are needed"
            + (", because no problem is its own example" if source is None else "")
            + ("; a task cannot be one, because its answer is what was done in a machine" if has_tasks else ""),
            hint="name another set or a file of examples with `few_shot_from`, or ask for fewer",
            fields=("few_shot", "few_shot_from"),
        )


# The examples of a file of questions with answers; None if it is no such file.
def _written(path: Path) -> Sequence[Example] | None:
    if not path.is_file() or not path.name.endswith((".jsonl", ".jsonl.gz")):
        return None
    found: list[Example] = []
    for row in read_rows(path):
        if isinstance(row, BadRow):
            raise row.error
        field = next((each for each in _ANSWERS if isinstance(row.value.get(each), str)), None)
        is_example = field is not None and isinstance(row.value.get("prompt"), str) and not _CHECKS & row.value.keys()
        if not is_example:
            if not found:
                return None
            message = "must have `prompt` and `completion`, both texts, to be an example"
            raise InputError(message, path=path, line=row.line)
        found.append(Example(row.value["prompt"], row.value[str(field)]))
    return found
