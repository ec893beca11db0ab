"""The network of a sandbox, from the rules of its spec and its annotations."""

from __future__ import annotations

from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.runtime.limits import ALLOWED_HOSTS_ANNOTATION, PRIVATE_HOSTS_ANNOTATION, RECORDING_ANNOTATION
from sandrl.runtime.network import ALL_PORTS, HTTPS_PORTS, Destination, DestinationError, Network, parsed
from sandrl.runtime.server import faults
from sandrl.settings import NetworkMode

_RULES = "sandbox.spec.network.egress"
_TCP = ("", "tcp")


def network_of(spec: pb.SandboxSpec) -> Network | None:
    """The network of a spec that has passed `fields.check`; None if it has none.

    Raises:
        faults.Fault: If a rule or an annotation is malformed.
    """
    rules = spec.network.egress
    allowed = [each for number, rule in enumerate(rules) if not rule.any for each in _destinations(rule, number)]
    allowed += _named(spec, ALLOWED_HOSTS_ANNOTATION, HTTPS_PORTS)
    private = _named(spec, PRIVATE_HOSTS_ANNOTATION, ALL_PORTS)
    is_public = any(rule.any for rule in rules)
    if not (rules or allowed or private):
        return None
    if spec.network.deny_egress:
        raise faults.invalid("egress is denied, and hosts are named", "sandbox.spec.network.deny_egress")
    for number, rule in enumerate(rules):
        if rule.any and rule.ports:
            raise faults.unsupported(f"the public Internet at some ports alone ({_RULES}[{number}].ports)")
    mode = NetworkMode.PUBLIC if is_public else NetworkMode.ALLOWLIST
    try:
        return Network(mode, tuple(allowed), tuple(private), spec.annotations.get(RECORDING_ANNOTATION, ""))
    except DestinationError as error:
        raise faults.invalid(str(error), _RULES) from error


def _destinations(rule: pb.EgressRule, number: int) -> list[Destination]:
    place = f"{_RULES}[{number}]"
    host = rule.https_hostname or rule.cidr.cidr
    if not host:
        raise faults.invalid("a rule names no destination", place)
    try:
        found = Destination.parse(host)
    except DestinationError as error:
        raise faults.invalid(str(error), place) from error
    if bool(rule.https_hostname) == (found.network is not None):
        raise faults.invalid(f"{host!r} is not of the kind of its field", place)
    ports = [(each.port, each.end_port or each.port) for each in rule.ports]
    if any(each.protocol.lower() not in _TCP for each in rule.ports):
        raise faults.unsupported(f"another protocol than TCP ({place}.ports)")
    if rule.https_hostname and any(each != HTTPS_PORTS for each in ports):
        raise faults.invalid("a name is allowed at TCP port 443 alone", f"{place}.ports")
    try:
        return [Destination(found.host, *each) for each in ports] or [found]
    except DestinationError as error:
        raise faults.invalid(str(error), f"{place}.ports") from error


def _named(spec: pb.SandboxSpec, annotation: str, ports: tuple[int, int]) -> tuple[Destination, ...]:
    try:
        return parsed(spec.annotations.get(annotation, ""), ports)
    except DestinationError as error:
        raise faults.invalid(str(error), f"sandbox.spec.annotations[{annotation}]") from error
