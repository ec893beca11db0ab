"""Users of machines, by what the machines say."""

from __future__ import annotations

import pytest

from sandrl.errors import NoUserError
from sandrl.trials.users import Facts, User

PASSWD = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/zsh\nodd\n7:x:8:8::/:/bin/sh\n"
GROUP = "root:x:0:\nextra:x:50:app,other\nfar:x:90000:app\nwheel:x:10:\n"
WHOLE, ALONE = "0 100000 65536\n", "0 1234 1\n"


def facts(ids: str = WHOLE, programs: str = "setpriv=/bin/setpriv", uid: int = 0) -> Facts:
    return Facts.read("m\n".join([f"{uid}\n", ids, ids, PASSWD, GROUP, f"{programs}\n", "/bin\n", ""]), "m")


def test_a_user_is_found_by_name_and_by_number() -> None:
    app = User(1000, 1001, (50, 1001), "app", "/home/app", "/bin/zsh")
    assert facts().find("app") == facts().find("1000") == app
    assert facts().find("4321") == User(4321, 0, (0,))
    assert facts().find("app:wheel").gid == 10
    assert facts().find("4321:77") == User(4321, 77, (77,))
    assert facts().find("7").uid == 8, "a name counts before a number"


@pytest.mark.parametrize("name", ["nobody-here", "", "-1", "99999999999", "app:nothing", "1 000"])
def test_what_is_no_user_is_said(name: str) -> None:
    with pytest.raises(NoUserError, match="the image has no"):
        facts().find(name)


def test_a_machine_with_one_user_id_says_so() -> None:
    alone = facts(ALONE)
    assert alone.becoming(alone.find("root"), "root") == []
    with pytest.raises(NoUserError, match="beyond the user ids that sandboxes have") as found:
        alone.find("app")
    assert "/etc/subuid" in (found.value.hint or "")


@pytest.mark.parametrize(
    ("programs", "first"),
    [
        ("su=/bin/su\nchroot=/sbin/chroot\nsetpriv=/bin/setpriv", ["/bin/setpriv", "--reuid=1000"]),
        ("su=/bin/su\nchroot=/sbin/chroot", ["/sbin/chroot", "--userspec=1000:1001"]),
        ("su=/bin/su", ["/bin/su", "-m"]),
        ("busybox su=/bin/busybox", ["/bin/busybox", "su"]),
    ],
)
def test_the_best_program_becomes_the_user(programs: str, first: list[str]) -> None:
    machine = facts(programs=programs)
    assert machine.becoming(machine.find("app"), "app")[:2] == first


def test_whoever_cannot_become_another_says_so() -> None:
    with pytest.raises(NoUserError, match="neither setpriv nor chroot nor su"):
        facts(programs="tar=/bin/tar").becoming(facts().find("app"), "app")
    other = facts(uid=1000)
    assert other.becoming(other.find("app"), "app") == []
    with pytest.raises(NoUserError, match="run as user 1000"):
        other.becoming(other.find("root"), "root")


def test_a_machine_that_says_nothing_has_root_alone() -> None:
    silent = Facts.read("", "m")
    assert silent.becoming(silent.find("0"), "0") == []
    with pytest.raises(NoUserError):
        silent.find("app")
