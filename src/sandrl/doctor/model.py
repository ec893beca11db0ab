"""The section of the report about a model that the user names: whether commands could load and ask it."""

from __future__ import annotations

from sandrl.doctor.report import Check, State
from sandrl.errors import SandrlError
from sandrl.models.description import ModelDescription, describe
from sandrl.models.places import find_model


def model_checks(model: str) -> list[Check]:
    """Examines a model as commands do before they load it: without its weights."""
    try:
        found = describe(find_model(model))
        found.check([(model, [{"role": "user", "content": "1"}])], max_tokens=None)
    except SandrlError as error:
        return [Check("model", State.FAILED, error.message, error.hint)]
    return [Check(name, State.OK, detail) for name, detail in _facts(found)]


def _facts(found: ModelDescription) -> list[tuple[str, str]]:
    tokens = ", ".join(map(str, found.tokenizer.convert_ids_to_tokens(list(found.ends))))
    settings = ", ".join(f"{name}={value}" for name, value in found.own_settings.items())
    adapters = found.adapters
    return [
        ("model", f"{found.name}, of the type {found.config.model_type}"),
        ("chat template", "its own" if found.has_template else "absent, so the model is asked in plain text"),
        ("context", "no limit" if found.positions is None else f"{found.positions} tokens"),
        ("vocabulary", f"{found.vocabulary} tokens; an answer ends at {tokens}"),
        ("generation settings", f"{settings} (not applied)" if settings else "without an effect on the distribution"),
        *([] if adapters is None else [("adapters", f"of rank {adapters.rank}, over {adapters.base}")]),
    ]
