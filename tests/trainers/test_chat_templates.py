"""Base models and chat templates: what a model is asked in, in evaluation and training, and what is refused at once."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandrl.config.words import PLAIN_TEMPLATE
from sandrl.doctor.model import model_checks
from sandrl.errors import InputError, SandrlError, UsageError
from sandrl.evaluation import make_request, run_eval
from sandrl.evaluation.run import estimate_eval
from sandrl.events import Event, Warned
from sandrl.models import Question
from sandrl.models.description import describe
from sandrl.models.in_process import InProcessModel
from sandrl.models.messages import Message, plain_text
from sandrl.models.places import find_model
from sandrl.runs import RunReader
from sandrl.settings import load_settings
from sandrl.trainers.plan import check_plan, make_plan
from tests.trainers.conftest import TrainHere

QUESTION = re.compile(r"question of \S+ has \d+ tokens")
GOOD = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "
ASKED: dict[str, Any] = {"problems": "tiny", "max_tokens": 16, "extract": "auto"}
SHORT: dict[str, Any] = {
    **ASKED,
    "steps": 1,
    "batch_size": 8,
    "samples": 4,
    "eval_problems": 0,
    "num_problems": 2,
    "length_penalty": 0.1,
}
SHORT |= {"length_penalty": 0.1, "set": {"gradient_accumulation_steps": 1}, "runtime": "local"}


@pytest.fixture
def base(tiny_directory: Path, tmp_path: Path) -> Path:
    """The tiny policy without its chat template: a base model."""
    path = tmp_path / "base"
    shutil.copytree(tiny_directory, path, ignore=shutil.ignore_patterns("chat_template.jinja"))
    return path


def refused_by_all(model: Path, **given: Any) -> SandrlError:
    """The one error with which `--dry-run` of both commands refuses a model."""
    settings = load_settings()
    with pytest.raises(SandrlError) as trained:
        check_plan(make_plan({"model": str(model), **ASKED, **given}, settings), settings)
    with pytest.raises(SandrlError) as evaluated:
        estimate_eval(make_request({"model": str(model), **ASKED, **given}, settings), settings)
    # The first question differs: only training shuffles.
    assert QUESTION.sub("", trained.value.message) == QUESTION.sub("", evaluated.value.message)
    return trained.value


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{% for m in messages %}\n{{ m.content }", 2, "is not a Jinja template: unexpected '}'"),
        ("{{ messages[0].content }}", None, "leaves out the question: it must write the content of every message"),
        ("{{ messages[-1].content }}", None, "leaves out the system message, so the model would not see the form"),
        (
            "{% for m in messages %}{{ m.content }}{% endfor %}\n{{ style }}",
            2,
            "needs the variable style, which is not",
        ),
        (
            "{% for m in messages %}\n{% if m.role == 'system' %}\n{{ raise_exception('no system role') }}{% endif %}"
            "{{ m.content }}{% endfor %}",
            3,
            "cannot render a conversation of system, user: no system role",
        ),
        ("{{ messages[0].content }}\n{{ 1 / 0 }}", 2, "cannot render a conversation of system, user: division by zero"),
        ("", None, "leaves out the question"),
    ],
)
def test_a_wrong_template_is_refused_with_its_file_line_and_reason(
    base: Path, tmp_path: Path, text: str, line: int | None, message: str
) -> None:
    file = tmp_path / "wrong.jinja"
    file.write_text(text, encoding="utf-8")
    place = f"{file}:{line}" if line else str(file)
    error = refused_by_all(base, chat_template=str(file))
    assert error.message.startswith(f"{place}: {message}")
    assert "chat_template" in error.fields


def test_a_wrong_template_is_refused_for_a_tiny_policy_that_is_yet_to_be_made(tmp_path: Path) -> None:
    file, settings = tmp_path / "wrong.jinja", replace(load_settings(), cache_dir=tmp_path / "cache")
    file.write_text("{{ eos_token }}", encoding="utf-8")
    given = {"chat_template": str(file)}
    with pytest.raises(InputError, match=r"wrong\.jinja: leaves out the question"):
        check_plan(make_plan(given, settings), settings)
    with pytest.raises(InputError, match=r"wrong\.jinja: leaves out the question"):
        estimate_eval(make_request(given, settings), settings)
    assert not (tmp_path / "cache").exists()


def test_a_template_that_does_not_end_is_refused(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandrl.models.templates._SECONDS", 0.1)
    file = tmp_path / "slow.jinja"
    file.write_text("{% for i in range(99999) %}{% for j in range(200) %}{% endfor %}{% endfor %}", encoding="utf-8")
    settings = load_settings()
    with pytest.raises(InputError, match=r"slow.jinja: does not end within"):
        check_plan(make_plan({"model": str(base), **ASKED, "chat_template": str(file)}, settings), settings)


def test_a_variable_that_is_tested_or_given_is_not_missing(base: Path, tmp_path: Path) -> None:
    settings, file = load_settings(), tmp_path / "given.jinja"
    file.write_text(GOOD + "{% if thinks %}think{% endif %}{{ day | default('') }}{{ style }}", encoding="utf-8")
    body = {"chat_template_kwargs": {"style": "short"}}
    given = {"model": str(base), **ASKED, "chat_template": str(file), "extra_body": body}
    assert check_plan(make_plan(given, settings), settings).template == str(file)


@pytest.mark.parametrize("name", ["absent.jinja", "folder", "bytes.jinja"])
def test_a_file_that_is_no_text_is_refused(base: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "bytes.jinja").write_bytes(b"\xff\xfe")
    error = refused_by_all(base, chat_template=str(tmp_path / name))
    assert error.message.startswith(f"{tmp_path / name}: the chat template cannot be read: ")


def test_a_base_model_has_no_template_of_its_own_and_no_tools(base: Path, tmp_path: Path) -> None:
    assert refused_by_all(base, chat_template="own").message == f"{base}: has no chat template of its own"
    settings, file = load_settings(), tmp_path / "good.jinja"
    file.write_text(GOOD, encoding="utf-8")
    tools = {"model": str(base), **ASKED, "rollout": "tools"}
    with pytest.raises(UsageError, match=r"rollout: tools need a chat template, and .* has none"):
        check_plan(make_plan(tools, settings), settings)
    with pytest.raises(UsageError, match="rollout: tools need a chat template, and chat_template is plain"):
        check_plan(make_plan({**tools, "model": "tiny", "chat_template": "plain"}, settings), settings)
    with pytest.raises(InputError, match="does not show the tool execute_code"):
        check_plan(make_plan({**tools, "chat_template": str(file)}, settings), settings)


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_what_cannot_be_loaded_or_asked_is_refused_before_it_is_loaded(base: Path) -> None:
    assert "an answer of 1020 does not fit into the context of" in refused_by_all(base, max_tokens=1020).message
    edited(base / "config.json", lambda content: content.update(vocab_size=20))
    assert "and the model has 20 tokens" in refused_by_all(base).message
    edited(base / "config.json", lambda content: content.update(model_type="t5"))
    assert "is a model of the type t5, which does not continue text" in refused_by_all(base).message
    (base / "config.json").write_text("{")
    assert "the model cannot be loaded: " in refused_by_all(base).message
    (base / "tokenizer.json").rename(base / "other.json")
    assert "has no tokenizer: it has no file tokenizer.json or " in refused_by_all(base).message
    (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:1000])
    assert "model.safetensors: the weights cannot be read: " in refused_by_all(base).message
    (base / "model.safetensors").unlink()
    assert "has no weights: it has no file model.safetensors or " in refused_by_all(base).message


def test_a_tokenizer_without_an_end_is_refused_unless_the_settings_name_one(base: Path) -> None:
    edited(base / "tokenizer_config.json", lambda content: content.update(eos_token=None, pad_token=None))
    found = describe(find_model(str(base)))
    assert (found.tokenizer.eos_token, found.tokenizer.pad_token) == ("<|im_end|>", "<|im_end|>")
    edited(base / "generation_config.json", lambda content: content.pop("eos_token_id"))
    edited(base / "config.json", lambda content: content.pop("eos_token_id"))
    assert "its tokenizer has no token that ends a text" in refused_by_all(base).message


def test_code_that_comes_with_a_model_is_not_executed(base: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    (base / "own.py").write_text(f"open({str(mark)!r}, 'w')\nclass C: pass\n")
    edited(base / "config.json", lambda content: content.update(model_type="own", auto_map={"AutoConfig": "own.C"}))
    assert "the model cannot be loaded: " in refused_by_all(base).message
    assert not mark.exists()


def test_adapters_need_layers_to_be_in(tiny_directory: Path, tmp_path: Path) -> None:
    import transformers

    path, settings = tmp_path / "other", load_settings()
    shutil.copytree(tiny_directory, path, ignore=shutil.ignore_patterns("model.safetensors", "config.json"))
    config = transformers.GPT2Config(n_layer=1, n_embd=8, n_head=1, vocab_size=500, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(path)
    given = {"model": str(path), **ASKED}
    assert check_plan(make_plan(given, settings), settings).template == "own"
    with pytest.raises(UsageError, match=r"lora: .* has no layers for adapters"):
        check_plan(make_plan({**given, "lora": True}, settings), settings)


def test_doctor_shows_what_is_known_of_a_model(base: Path, tiny_directory: Path) -> None:
    shown = {check.name: check.detail for check in model_checks(str(base))}
    assert shown["model"] == f"{base}, of the type qwen2"
    assert shown["chat template"] == "absent, so the model is asked in plain text"
    assert shown["context"] == "1024 tokens"
    assert "an answer ends at <|im_end|>" in shown["vocabulary"]
    assert {check.name: check.detail for check in model_checks(str(tiny_directory))}["chat template"] == "its own"


def test_plain_text_is_that_of_an_endpoint(base: Path) -> None:
    said = [Message("system", "Be brief."), Message("user", "Write `f`.")]
    found = describe(find_model(str(base)))
    assert found.template.name == PLAIN_TEMPLATE
    assert found.rendered([{"role": each.role, "content": each.content} for each in said]) == plain_text(said)


def test_training_and_evaluation_ask_a_base_model_in_the_same_text(base: Path, train_here: TrainHere) -> None:
    run = train_here(model=str(base), **SHORT, run_name="plain")
    assert RunReader(run).config.options["chat_template"] == "plain"
    # The tokenizer still has the parser of answers to the template that is gone.
    assert not [row for row in RunReader(run).trajectories().rows if "Solve the task" in (row.completion or "")]
    assert RunReader(run).metrics().rows[0].metrics["loss"] is not None
    checkpoint = run / "checkpoints" / "checkpoint-1"
    asked = [Question(0, [Message("user", "Write `f`.")])]
    trained, begun = describe(find_model(str(checkpoint))), describe(find_model(str(base)))
    # A checkpoint has the template that it was trained with, so whatever loads it asks as the training did.
    assert (trained.template.name, trained.template.text) == ("own", begun.template.text)
    assert next(iter(InProcessModel(trained).answers(asked))).reply is not None
    resumed = train_here(resume=run, steps=2)
    assert [row.step for row in RunReader(resumed).metrics().rows] == [0, 1]


def test_a_template_of_a_file_is_trained_with_and_may_not_change(
    base: Path, tmp_path: Path, train_here: TrainHere
) -> None:
    file = tmp_path / "good.jinja"
    file.write_text(GOOD, encoding="utf-8")
    run = train_here(model=str(base), **SHORT, chat_template=str(file), run_name="file")
    assert describe(find_model(str(run / "checkpoints" / "checkpoint-1"))).template.text == GOOD
    assert not [row for row in RunReader(run).trajectories().rows if "[user]" in (row.completion or "")]
    file.write_text(GOOD + "!", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot be resumed: the content of .* has changed"):
        train_here(resume=run, steps=2)


def test_an_evaluation_says_that_it_asks_in_plain_text(base: Path, tmp_path: Path) -> None:
    settings = replace(load_settings(), runs_dir=tmp_path / "runs")
    told: list[Event] = []
    given = {"model": str(base), **ASKED, "num_problems": 1, "samples": 1}
    run_eval(make_request(given, settings), settings, emit=told.append)
    said = f"{base} has no chat template, so it is asked in plain text (chat_template plain)"
    assert [each.message for each in told if isinstance(each, Warned) and "template" in each.message] == [said]
