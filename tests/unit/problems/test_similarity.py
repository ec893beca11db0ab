"""Near duplicates within a set, and what an evaluation set has in common with it."""

from __future__ import annotations

import random

import pytest

from sandrl.problems import Problem
from sandrl.problems.similarity import Match, contaminated, near_duplicates
from sandrl.problems.tasks.task import Environment, Task, TaskStep

TEXT = (
    "Given the root of a binary tree whose nodes hold whole numbers, return the largest sum of the values on any path"
    " that begins at a leaf and ends at another leaf of the same tree, or minus one if there is no such path"
)


def set_of(*prompts: str) -> dict[str, Problem]:
    return {f"p{at}": Problem(f"p{at}", prompt, tests=("assert f()",)) for at, prompt in enumerate(prompts)}


def pairs(found: list[Match]) -> list[tuple[str, str]]:
    return [(each.task_id, each.other) for each in found]


@pytest.mark.parametrize(
    "other",
    [
        TEXT.upper(),
        TEXT.replace(" the ", "\n the ").replace(",", " ;"),
        f"{TEXT}. Think first.",
        TEXT.replace("largest", "greatest"),
    ],
)
def test_a_prompt_in_nearly_the_same_words_is_a_near_duplicate(other: str) -> None:
    [found] = near_duplicates(set_of("Sort a list of words by length.", TEXT, other))
    assert (found.task_id, found.other) == ("p2", "p1")
    assert 0.8 <= found.share <= 1.0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{TEXT} with 3 nodes", f"{TEXT} with 4 nodes"),
        (f"{TEXT}, the 2nd", f"{TEXT}, the 3rd"),
        (TEXT, " ".join(reversed(TEXT.split()))),
        ("Write a function that adds two numbers.", "Write a function that multiplies two numbers."),
        ("", ""),
        ("!?", "!?"),
    ],
)
def test_other_numbers_or_other_words_are_another_problem(one: str, other: str) -> None:
    assert near_duplicates(set_of(one, other)) == []


def test_the_first_of_several_stays() -> None:
    assert pairs(near_duplicates(set_of(TEXT, TEXT, f"{TEXT} again", TEXT))) == [
        ("p1", "p0"),
        ("p2", "p0"),
        ("p3", "p0"),
    ]


def test_the_same_instruction_on_another_machine_is_another_task() -> None:
    tasks = {
        name: Problem(name, TEXT, task=Task(name, "harbor 1.3", name, Environment(image), (TaskStep(TEXT),)))
        for name, image in (("one", "a"), ("two", "b"), ("three", "a"))
    }
    assert pairs(near_duplicates(tasks)) == [("three", "one")]


def words(count: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join("".join(draw.choices("abcdefghij", k=5)) for _ in range(count))


def test_near_duplicates_are_found_in_a_large_set_with_a_common_phrase() -> None:
    prompts = [f"Write a function that takes a list and returns {words(40, seed)}" for seed in range(400)]
    changed = [prompt.replace(prompt.split()[20], "changed") for prompt in prompts[:100]]
    found = near_duplicates(set_of(*prompts, *changed))
    assert pairs(found) == [(f"p{400 + at}", f"p{at}") for at in range(100)]


def test_an_evaluation_problem_of_which_half_is_in_one_training_prompt_is_found() -> None:
    known = words(16, 0)
    train = set_of(words(30, 1), f"{words(9, 2)} {known} {words(9, 3)}")
    half, less = f"{known} {words(16, 4)}", f"{known} {words(17, 5)}"
    assert contaminated({"half": set_of(half)["p0"], "less": set_of(less)["p0"]}, train) == [Match("half", "p1", 0.5)]


def test_every_training_problem_that_has_it_is_named_the_closest_first() -> None:
    prompt = words(20, 0)
    train = set_of(" ".join(prompt.split()[:15]), prompt.title(), words(20, 1))
    found = contaminated({"e": Problem("e", prompt, tests=("assert f()",))}, train)
    assert found == [Match("e", "p1", 1.0), Match("e", "p0", 0.75)]


def test_a_phrase_of_the_whole_set_is_no_contamination() -> None:
    phrase = "write a python function that takes a list of numbers and returns"
    train = set_of(*(f"{phrase} {words(2, seed)}" for seed in range(30)))
    evaluation = set_of(f"{phrase} {words(4, 99)}", words(7, 1), "")
    assert contaminated(evaluation, train) == []
    few = dict(list(train.items())[:10])
    assert {each.task_id for each in contaminated(evaluation, few)} == {"p0"}


def test_scripts_without_blanks_count_by_character() -> None:
    prompt = "给定一个整数数组返回其中两个数的下标使它们的和等于目标值"
    assert pairs(contaminated({"e": set_of(prompt)["p0"]}, set_of(f"题目：{prompt}。"))) == [("e", "p0")]
    assert near_duplicates(set_of(prompt, prompt.replace("整数", "实数"))) == []
    assert pairs(near_duplicates(set_of(prompt, f"{prompt}。"))) == [("p1", "p0")]


def test_a_short_prompt_says_too_little() -> None:
    train = set_of("Write a function that returns whether a word has a letter twice.")
    assert contaminated(set_of("Write a function that returns whether a word has a letter three times."), train) == []
