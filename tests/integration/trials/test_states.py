"""States of machines are kept, and machines begin with them."""

from __future__ import annotations

import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from sandrl.errors import InfrastructureError
from sandrl.events import Event
from sandrl.rollouts.sandbox import JobSandboxes
from sandrl.runtime.images.removal import prune, remove
from sandrl.runtime.images.store import open_store
from sandrl.sandboxes import Shape, downloads, network_of
from sandrl.settings import NetworkMode, load_settings
from sandrl.trials import state as module
from sandrl.trials.machine import Machine
from sandrl.trials.state import LostStateError, drop_state, find_state
from tests.support.image_trees import import_tree, make_busybox_tree

Machines = Callable[..., Machine]


def from_state(machine: Machine, place: JobSandboxes, states: Path) -> Machine:
    state = machine.save()
    assert state is not None
    other = Machine(place, replace(machine.shape, state=state), ("trial",), states=states)
    other.start()
    return other


def test_a_machine_begins_with_what_another_has_changed(
    machines: Machines, place: JobSandboxes, tmp_path: Path
) -> None:
    machine = machines("busybox", states=tmp_path)
    script = """echo kept >/srv/new; rm /etc/os-release; chmod 4711 /bin/busybox; chown app /srv/new
    ln -s new /srv/link; mkdir -p /home/app/x; touch /tmp/temporary"""
    assert machine.run(script, timeout_seconds=10).exit_code == 0
    other = from_state(machine, place, tmp_path)
    try:
        seen = other.run("cat /srv/link; ls -l /srv/new /bin/busybox; ls /etc/os-release /home/app", timeout_seconds=10)
        assert b"kept\n" in seen.stdout
        assert b" app " in seen.stdout
        assert b"-rws--x--x" in seen.stdout
        assert b"\nx\n" in seen.stdout
        assert b"os-release: No such file" in seen.stderr
        other.run("echo more >/srv/more", timeout_seconds=10)
        third = from_state(other, place, tmp_path)
        assert third.run("cat /srv/new /srv/more", timeout_seconds=10).stdout == b"kept\nmore\n"
        again = find_state(tmp_path, third.shape.state.digest if third.shape.state else "", machine.shape.image)
        assert again == third.shape.state
        third.close()
    finally:
        other.close()


def test_settings_for_downloads_are_for_all_users_and_in_no_state(
    images: dict[str, str], place: JobSandboxes, tmp_path: Path
) -> None:
    told: list[Event] = []
    certificates = tmp_path / "own.pem"
    trustme.CA().cert_pem.write_to_path(str(certificates))
    variables = {"HOME": str(tmp_path), "SSL_CERT_FILE": str(certificates), "PIP_INDEX_URL": "http://ada:x@own.test/s"}
    usual = Shape(
        place.find_image(images["debian"]),
        network=network_of(NetworkMode.PUBLIC, ()),
        variables=(("CURL_CA_BUNDLE", "/own"),),
        storage_bytes=1 << 30,
        as_root=True,
    )
    furnish = downloads(variables, told.append)
    shape, files = furnish(usual, place.connection)
    machine = Machine(place, shape, ("trial",), states=tmp_path / "states", files=files)
    try:
        machine.start()
        found = machine.run('echo $CURL_CA_BUNDLE; cat "$SSL_CERT_FILE"; ls /srv', user="1000", timeout_seconds=10)
        assert found.stdout.startswith(b"/own\n")
        assert b"BEGIN CERTIFICATE" in found.stdout
        assert not found.stderr
        told_apt = machine.run('cat "$APT_CONFIG"', timeout_seconds=10).stdout
        assert b'APT::Sandbox::User "root";' in told_apt
        assert b"certificates.pem" in told_apt
        machine.run("echo kept >/srv/new", timeout_seconds=10)
        state = machine.save()
        assert state is not None
        with tarfile.open(state.path) as archive:
            names = {each.name.removeprefix("./") for each in archive}
        assert "srv/new" in names
        assert not [each for each in names if each.startswith("run/sandrl")]
    finally:
        machine.close()
    assert [each for each in told if "own.test:80" in str(each) and "private_hosts" in str(each)]
    closed = replace(usual, network=network_of(NetworkMode.NONE, (), ("own.test",)))
    assert furnish(closed, place.connection) == (closed, {})
    opened = replace(usual, network=network_of(NetworkMode.PUBLIC, (), ("own.test",)))
    assert "PIP_CONFIG_FILE" in dict(furnish(opened, place.connection)[0].variables)


def test_images_of_states_are_removed_after_their_machines(
    machines: Machines, place: JobSandboxes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_UNUSED", 1)
    machine = machines("busybox", states=tmp_path)
    store = open_store(load_settings())
    machine.run("echo x >/srv/x", timeout_seconds=10)
    before = set(store.digests())
    first = from_state(machine, place, tmp_path)
    [made] = set(store.digests()) - before
    machine.run("echo y >/srv/y", timeout_seconds=10)
    second = from_state(machine, place, tmp_path)
    first.close()
    ends_at = time.monotonic() + 30
    while made in store.digests() and time.monotonic() < ends_at:
        time.sleep(0.2)
        from_state(machine, place, tmp_path).close()
    assert made not in store.digests()
    assert second.run("cat /srv/y", timeout_seconds=10).stdout == b"y\n"
    second.close()


def test_equal_states_are_kept_once(machines: Machines, tmp_path: Path) -> None:
    machine = machines("busybox", states=tmp_path)
    machine.run("echo x >/srv/x", timeout_seconds=10)
    first, second = machine.save(), machine.save()
    assert first == second
    assert len(list(tmp_path.iterdir())) == 1


def test_an_equal_state_stays_until_the_last_that_wants_it_has_ended(machines: Machines, tmp_path: Path) -> None:
    machine = machines("busybox", states=tmp_path)
    first, second = machine.save(), machine.save()
    assert first is not None
    assert second is not None
    drop_state(first)
    assert second.path.exists()
    drop_state(second)
    assert not second.path.exists()
    (tmp_path / first.path.name).touch()  # of an earlier process
    again = machine.save()
    assert again is not None
    drop_state(again)
    assert again.path.exists()


def test_a_state_whose_image_is_gone_says_so(place: JobSandboxes, tmp_path: Path, machines: Machines) -> None:
    def make(tree: Path) -> None:
        make_busybox_tree(tree)
        (tree / "gone").touch()

    name = import_tree("trials-gone:1", make)
    machine = machines("busybox", states=tmp_path, image=name)
    machine.run("echo x >/srv/x", timeout_seconds=10)
    state = machine.save()
    assert state is not None
    other = from_state(machine, place, tmp_path)
    for each in (machine, other):
        each.close()
    store = open_store(load_settings())
    while remove(store, [name if store.find(name) else state.image.partition("@")[2]]).kept:
        time.sleep(0.1)  # its sandboxes are being stopped
    prune(store)
    again = Machine(place, replace(machine.shape, state=state), ("trial",))
    with pytest.raises(LostStateError, match="is not stored any more"):
        again.start()


def test_a_state_that_is_too_large_is_not_kept(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[Event]
) -> None:
    machine = machines("busybox", states=tmp_path)
    machine.run("head -c 3000000 /dev/zero >/srv/big", timeout_seconds=10)
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    assert machine.save() is None
    assert "is not kept" in str(told[-1])
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_written_is_no_fault_of_the_agent(machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    machine = machines("busybox", states=tmp_path / "file")
    with pytest.raises(InfrastructureError, match="cannot be kept"):
        machine.save()


def test_a_lost_machine_has_no_state(machines: Machines, tmp_path: Path, place: JobSandboxes) -> None:
    machine = machines("busybox", states=tmp_path)
    assert machine.sandbox_id is not None
    place.connection.open().get(machine.sandbox_id).result(30).stop().result(30)
    with pytest.raises(InfrastructureError, match="is not running"):
        machine.save()
    with pytest.raises(InfrastructureError):
        machine.run("true", timeout_seconds=10)


def test_the_runtime_tells_how_large_an_image_is(place: JobSandboxes) -> None:
    def make(tree: Path) -> None:
        make_busybox_tree(tree)
        (tree / "large").write_bytes(bytes(3_000_000))

    name = import_tree("trials-large:1", make)
    size = place.connection.image_bytes(place.find_image(name))
    assert size is not None
    assert 3_000_000 < size < 6_000_000
    assert place.connection.image_bytes("localhost/not/there:1") is None
