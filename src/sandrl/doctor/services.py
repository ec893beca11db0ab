"""Checks of everything outside the machine: credentials, the sandbox service, the dataset hub, Weights & Biases.

Credentials are reported by the name of the variable or file, never by value. A service is called only with `--online`,
in a thread that is abandoned after a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from sandrl.config.art import ArtBackendKind, choose_backend
from sandrl.deadlines import TookTooLong, answer_within
from sandrl.doctor.report import Check, State
from sandrl.errors import SandrlError
from sandrl.installation import again_command, install_command, installed_version
from sandrl.problems.hub import PROBE_SECONDS, hub_answers
from sandrl.sandboxes.providers import find_provider
from sandrl.sandboxes.providers.protocol import Connection
from sandrl.settings import RuntimeKind, Settings

_TIMEOUT_SECONDS = 6.0
_NONE_BROKEN: Mapping[str, str] = {}
_ONLINE_HINT = "sandrl doctor --online tests it"
_NETWORK_HINT = "check the network and CWSANDBOX_BASE_URL, or use `runtime` local"
_HUB = "https://huggingface.co"
_KEYS = (
    "CWSANDBOX_API_KEY", "AVIATO_API_KEY", "WANDB_API_KEY", "WANDB_ENTITY_NAME", "HF_TOKEN", "OPENAI_API_KEY",
    "ART_TINKER_API_KEY", "TINKER_API_KEY",
)  # fmt: skip
_TRUE = frozenset({"1", "on", "yes", "true"})


def credential_checks(environment: Mapping[str, str]) -> list[Check]:
    present = [name for name in _KEYS if environment.get(name, "").strip()]
    if present:
        return [Check(name, State.OK, "is set") for name in present]
    return [Check("credentials", State.ABSENT, "not set; the local runtime does not need them")]


def remote_check(settings: Settings, *, online: bool) -> Check:
    if settings.credentials is None:
        return Check("sandbox service", State.ABSENT, "no credentials are set", "set CWSANDBOX_API_KEY to use it")
    if not online:
        return Check("sandbox service", State.SKIPPED, f"not tested; {settings.credentials} is set", _ONLINE_HINT)
    failure = _within(_TIMEOUT_SECONDS, lambda: _list_nothing(settings))
    if failure is None:
        return Check("sandbox service", State.OK, f"answers, and accepts {settings.credentials}")
    message = failure.message
    for secret in settings.secrets:
        # Error texts come from elsewhere: whatever they quote, it is not a key.
        message = message.replace(secret, "…")
    return Check("sandbox service", State.FAILED, message, failure.hint or _NETWORK_HINT)


def provider_check(settings: Settings, kind: str) -> Check:
    """Whether a runtime without `needs` can be found; it is not asked."""
    provider, found = find_provider(kind), list[Connection | None]()
    failure = _within(_TIMEOUT_SECONDS, lambda: found.append(provider.find(settings, reason="examined")))
    if failure is not None:
        return Check(kind, State.FAILED, failure.message, failure.hint)
    if found == [None]:
        return Check(kind, State.FAILED, provider.absence(settings))
    return Check(kind, State.OK, "found; not tested")


def hub_check(environment: Mapping[str, str], *, online: bool) -> Check:
    """Whether the dataset hub answers, and what its cache has."""
    address = environment.get("HF_ENDPOINT", "").strip() or _HUB
    cached = _cached_datasets(environment)
    kept = f"{cached} datasets in its cache" if cached != 1 else "1 dataset in its cache"
    if environment.get("HF_HUB_OFFLINE", "").strip().lower() in _TRUE:
        return Check("dataset hub", State.SKIPPED, f"HF_HUB_OFFLINE is set; {kept}")
    if not online:
        return Check("dataset hub", State.SKIPPED, f"not tested; {kept}", _ONLINE_HINT)
    # The rest of an address may hold a token.
    place = urlsplit(address).hostname or "the hub"
    if hub_answers(address, PROBE_SECONDS):
        return Check("dataset hub", State.OK, f"{place} answers; {kept}")
    return Check(
        "dataset hub",
        State.FAILED,
        f"{place} does not answer; {kept}",
        "check the network, or use a local file: `problems` FILE",
    )


def wandb_check(environment: Mapping[str, str], broken: Mapping[str, str] = _NONE_BROKEN) -> Check:
    installed = installed_version("wandb")
    if installed is None:
        return Check("Weights & Biases", State.ABSENT, "wandb is not installed", install_command("wandb"))
    if "wandb" in broken:
        return _broken_check("Weights & Biases", "wandb", broken)
    key = _wandb_key(environment)
    if key is None:
        return Check(
            "Weights & Biases", State.ABSENT, f"wandb {installed}, no key", "wandb login, or WANDB_MODE=offline"
        )
    mode = environment.get("WANDB_MODE", "").strip()
    return Check("Weights & Biases", State.OK, f"wandb {installed}, key in {key}" + (f", mode {mode}" if mode else ""))


def _broken_check(name: str, package: str, broken: Mapping[str, str]) -> Check:
    return Check(name, State.FAILED, f"{package} cannot be imported: {broken[package]}", again_command(package))


def tinker_check(settings: Settings, broken: Mapping[str, str] = _NONE_BROKEN) -> Check:
    """Which service `sandrl art train --backend tinker` would train with."""
    choice = choose_backend(ArtBackendKind.TINKER, settings, can_train_here=False)
    missing = [name for name in ("openpipe-art", "tinker") if installed_version(name) is None]
    if missing:
        detail = f"{choice.kind} ({choice.reason}), but not installed: {', '.join(missing)}"
        return Check("Tinker", State.ABSENT, detail, install_command("art-tinker"))
    unusable = next((name for name in ("openpipe-art", "tinker") if name in broken), None)
    if unusable is not None:
        return _broken_check("Tinker", unusable, broken)
    if choice.kind is ArtBackendKind.EMBEDDED:
        return Check("Tinker", State.OK, f"embedded ({choice.reason}): a service on this machine, for small models")
    if settings.tinker_api_key is None:
        return Check("Tinker", State.ABSENT, f"{choice.reason}, but no key is set", "set ART_TINKER_API_KEY")
    return Check(
        "Tinker", State.OK, f"{settings.tinker_base_url or 'the default service'} ({choice.reason}); not tested"
    )


def _list_nothing(settings: Settings) -> None:
    from sandrl.sandboxes import find_connection
    from sandrl.sandboxes.inventory import Inventory

    connection = find_connection(settings, runtime=RuntimeKind.REMOTE)
    if connection is not None:
        Inventory(connection).list(tags=["sandrl-doctor"])


def _within(seconds: float, ask: Callable[[], None]) -> SandrlError | None:
    try:
        answer_within(seconds, ask)
    except TookTooLong:
        return SandrlError(f"did not answer within {seconds:g} s")
    except SandrlError as error:
        return error
    except Exception as error:  # noqa: BLE001 - whatever it was, the service cannot be used, and this says why
        return SandrlError(f"{type(error).__name__}: {error}")
    return None


def _cached_datasets(environment: Mapping[str, str]) -> int:
    home = environment.get("HF_HOME") or Path(
        environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or "/nonexistent", ".cache"), "huggingface"
    )
    folder = Path(environment.get("HF_HUB_CACHE") or Path(home, "hub"))
    try:
        return sum(1 for path in folder.iterdir() if path.name.startswith("datasets--"))
    except OSError:
        return 0


def _wandb_key(environment: Mapping[str, str]) -> str | None:
    if environment.get("WANDB_API_KEY", "").strip():
        return "WANDB_API_KEY"
    netrc = Path(environment.get("NETRC") or Path(environment.get("HOME") or "/nonexistent", ".netrc"))
    try:
        words = netrc.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return None
    return str(netrc) if "api.wandb.ai" in words else None
