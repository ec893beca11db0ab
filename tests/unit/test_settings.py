from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from sandrl.errors import AuthenticationError, SandrlError, UsageError
from sandrl.settings import RuntimeKind, Settings, private_directory, split_runtime


def test_without_credentials_the_runtime_is_local_and_says_why() -> None:
    choice = Settings.from_environment({}).choose_runtime()
    assert choice.kind is RuntimeKind.LOCAL
    assert choice.reason == "no sandbox credentials are set"


@pytest.mark.parametrize(
    ("environment", "source"),
    [
        ({"CWSANDBOX_API_KEY": "key-new", "AVIATO_API_KEY": "key-old"}, "CWSANDBOX_API_KEY"),
        ({"AVIATO_API_KEY": "key-old"}, "AVIATO_API_KEY"),
        ({"WANDB_API_KEY": "key-wandb", "WANDB_ENTITY_NAME": "team"}, "WANDB_API_KEY with WANDB_ENTITY_NAME"),
    ],
)
def test_credentials_choose_the_remote_runtime(environment: dict[str, str], source: str) -> None:
    settings = Settings.from_environment(environment)
    assert settings.credentials == source
    assert settings.choose_runtime().kind is RuntimeKind.REMOTE
    assert source in settings.choose_runtime().reason
    assert settings.choose_runtime(RuntimeKind.LOCAL).kind is RuntimeKind.LOCAL


@pytest.mark.parametrize("environment", [{"WANDB_API_KEY": "key-wandb"}, {"CWSANDBOX_API_KEY": " "}])
def test_half_of_the_credentials_are_none(environment: dict[str, str]) -> None:
    assert Settings.from_environment(environment).choose_runtime().kind is RuntimeKind.LOCAL


def test_asking_for_the_remote_runtime_without_credentials_names_the_variables() -> None:
    with pytest.raises(AuthenticationError) as caught:
        Settings.from_environment({}).choose_runtime(RuntimeKind.REMOTE)
    assert "CWSANDBOX_API_KEY" in str(caught.value.hint)


def test_an_address_without_credentials_is_not_silently_ignored() -> None:
    with pytest.raises(AuthenticationError, match="AVIATO_BASE_URL is set"):
        Settings.from_environment({"AVIATO_BASE_URL": "http://127.0.0.1:1"}).choose_runtime()


@pytest.mark.parametrize(
    ("named", "kind", "address"),
    [
        *((kind.value, kind, None) for kind in RuntimeKind),
        ("ray:host:6379", RuntimeKind.RAY, "host:6379"),
        ("ray:ray://host:10001", RuntimeKind.RAY, "ray://host:10001"),
        ("ray:[::1]:6379", RuntimeKind.RAY, "[::1]:6379"),
        ("ray:auto", RuntimeKind.RAY, "auto"),
        ("ray: host:6379 ", RuntimeKind.RAY, "host:6379"),
    ],
)
def test_the_name_of_a_runtime_is_a_word_and_for_ray_perhaps_an_address(
    named: str, kind: RuntimeKind, address: str | None
) -> None:
    assert split_runtime(named) == (kind, address)


@pytest.mark.parametrize(
    "named",
    [
        "",
        " ",
        ":",
        "ray:",
        "ray: ",
        "ray ",
        "Ray",
        "local:",
        "local:x",
        "auto:x",
        "daemonless:x",
        "remote:x",
        "cluster",
    ],
)
def test_another_name_of_a_runtime_is_refused_with_the_words_that_are_possible(named: str) -> None:
    names = "auto, local, remote, daemonless, ray, docker, podman, kubernetes or ray:ADDRESS"
    words = f"runtime is {named!r}; use one of {names}"
    for refuses in (split_runtime, Settings.from_environment({"CWSANDBOX_API_KEY": "key"}).choose_runtime):
        with pytest.raises(UsageError) as caught:
            refuses(named)
        message, meant, _ = caught.value.message.partition("; did you mean 'ray'?")
        assert (message, caught.value.fields) == (words, ("runtime",))
        assert bool(meant) == (named in ("ray ", "Ray", "cluster"))


def test_the_address_of_a_cluster_is_part_of_the_choice() -> None:
    settings = Settings.from_environment({"CWSANDBOX_API_KEY": "key"})
    named = settings.choose_runtime("ray:host:6379")
    assert (named.kind, named.reason, named.address) == (RuntimeKind.RAY, "requested", "host:6379")
    assert settings.choose_runtime("ray").address is None


def test_the_environment_says_where_the_cluster_is_and_never_that_it_is_used() -> None:
    settings = Settings.from_environment({"RAY_ADDRESS": "host:6379"})
    assert settings.ray_address == "host:6379"
    assert settings.choose_runtime().kind is RuntimeKind.LOCAL
    assert Settings.from_environment({"RAY_ADDRESS": " "}).ray_address is None


def test_the_representation_shows_no_secret() -> None:
    settings = Settings.from_environment(
        {"CWSANDBOX_API_KEY": "key-one", "WANDB_API_KEY": "key-two", "HF_TOKEN": "key-3"}
    )
    assert settings.secrets == ("key-one", "key-two", "key-3")
    assert "key-3" not in repr(settings)
    assert "key-one" not in repr(settings)
    assert "key-two" not in repr(settings)


def test_directories_follow_the_users_word_then_the_convention_then_home(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    xdg = {**home, "XDG_STATE_HOME": str(tmp_path / "xdg")}
    own = {**xdg, "SANDRL_STATE_DIR": str(tmp_path / "own")}
    found = [Settings.from_environment(environment).state_dir for environment in (home, xdg, own)]
    assert found == [tmp_path / ".local/state/sandrl", tmp_path / "xdg/sandrl", tmp_path / "own"]
    assert Settings.from_environment(home).cache_dir == tmp_path / ".cache/sandrl"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("home", [None, "", "/nonexistent", "relative", "/dev/null"])
def test_without_a_usable_home_the_temporary_directory_serves(home: str | None) -> None:
    settings = Settings.from_environment({} if home is None else {"HOME": home})
    assert settings.state_dir == Path(tempfile.gettempdir(), f"sandrl-{os.geteuid()}-state")
    assert settings.cache_dir == Path(tempfile.gettempdir(), f"sandrl-{os.geteuid()}-cache")


def test_runs_are_below_the_current_directory_unless_told_otherwise() -> None:
    assert Settings.from_environment({}).runs_dir == Path("runs")
    assert Settings.from_environment({"SANDRL_RUNS_DIR": "/data/runs"}).runs_dir == Path("/data/runs")


def test_a_private_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    path = private_directory(tmp_path / "deep" / "state")
    assert path.stat().st_mode & 0o777 == 0o700
    assert private_directory(path) == path


def test_a_directory_that_others_prepared_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("open", "link", "file"):
        with pytest.raises(SandrlError, match=name) as caught:
            private_directory(tmp_path / name)
        assert "SANDRL_STATE_DIR" in str(caught.value.hint)


def test_a_launcher_says_which_of_how_many_processes_this_is() -> None:
    one = Settings.from_environment({})
    assert (one.rank, one.world_size) == (0, 1)
    third = Settings.from_environment({"RANK": "2", "WORLD_SIZE": "4"})
    assert (third.rank, third.world_size) == (2, 4)
    odd = Settings.from_environment({"RANK": "", "WORLD_SIZE": "many"})
    assert (odd.rank, odd.world_size) == (0, 1)
