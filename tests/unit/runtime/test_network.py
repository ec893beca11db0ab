"""What a sandbox may reach: destinations, rules of the protocol, addresses, questions for names."""

from __future__ import annotations

import ipaddress
import struct
from typing import Any

import pytest
from cwsandbox._proto import sandbox_pb2 as pb

from sandrl.errors import UsageError
from sandrl.runtime.gate import dns
from sandrl.runtime.limits import ALLOWED_HOSTS_ANNOTATION, PRIVATE_HOSTS_ANNOTATION
from sandrl.runtime.network import ALL_PORTS, Destination, DestinationError, Network, is_public
from sandrl.runtime.server.egress import network_of
from sandrl.runtime.server.faults import Fault
from sandrl.sandboxes.request import SandboxRequest
from sandrl.settings import NetworkMode, Settings


@pytest.mark.parametrize(
    ("text", "host", "ports"),
    [
        ("PyPI.org", "pypi.org", (443, 443)),
        ("pypi.org.", "pypi.org", (443, 443)),
        ("*.example.org:8080", "*.example.org", (8080, 8080)),
        ("deb.debian.org:80-90", "deb.debian.org", (80, 90)),
        ("192.0.2.7", "192.0.2.7/32", ALL_PORTS),
        ("192.0.2.7:53", "192.0.2.7/32", (53, 53)),
        ("192.0.2.9/24", "192.0.2.0/24", ALL_PORTS),
        ("2001:db8::1", "2001:db8::1/128", ALL_PORTS),
        ("[2001:db8::1]:443", "2001:db8::1/128", (443, 443)),
    ],
)
def test_a_text_names_a_destination(text: str, host: str, ports: tuple[int, int]) -> None:
    found = Destination.parse(text)
    assert (found.host, found.ports) == (host, ports)
    assert Destination.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "*", "a.*.org", "-a.org", "a_b.org", "a b", "http://a.org", "a.org:0", "a.org:70000", "a.org:9-8", "1.2.3"],
)
def test_what_is_no_destination_is_refused(text: str) -> None:
    with pytest.raises(DestinationError):
        Destination.parse(text)


def test_a_wildcard_means_the_names_below_it_alone() -> None:
    network = Network.of(None, ["*.example.org"])
    assert network is not None
    assert network.mode is NetworkMode.ALLOWLIST
    assert network.permits("a.b.example.org", 443)
    for name, port in (
        ("example.org", 443),
        ("badexample.org", 443),
        ("a.example.org.evil.net", 443),
        ("a.example.org", 80),
    ):
        assert not network.permits(name, port)


@pytest.mark.parametrize(
    ("mode", "allowed", "private", "why"),
    [
        ("public", ["a.org"], [], "hosts are named"),
        ("none", [], ["10.0.0.1"], "hosts are named"),
        ("allowlist", [], [], "without a host"),
        ("public", [], ["127.0.0.1"], "name one port"),
        ("public", [], ["localhost:1-9"], "name one port"),
    ],
)
def test_what_contradicts_itself_is_refused(mode: str, allowed: list[str], private: list[str], why: str) -> None:
    with pytest.raises(DestinationError, match=why):
        Network.of(NetworkMode(mode), allowed, private)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.100.100.200", "169.254.169.254", "192.0.0.192"),
        *("168.63.129.16", "0.0.0.0", "224.0.0.1", "239.1.1.1", "255.255.255.255", "198.18.0.1", "240.0.0.1"),
        *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1"),
        *("2002:7f00:1::", "2001:0:1:2::3", "fe80::1", "fec0::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
    ],
)  # fmt: skip
def test_addresses_that_are_not_of_the_internet_are_not_public(address: str) -> None:
    parsed = ipaddress.ip_address(address)
    assert not is_public(parsed)
    public = Network(NetworkMode.PUBLIC)
    assert not public.reaches("rebound.example.org", parsed, 443)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_a_private_host_is_reached_at_its_port_alone() -> None:
    network = Network.of(NetworkMode.PUBLIC, (), ["mirror.corp:3128", "10.0.0.0/8:80", "localhost:8080"])
    assert network is not None
    inner = ipaddress.ip_address("10.0.0.9")
    assert network.reaches("mirror.corp", inner, 3128)
    assert not network.reaches("mirror.corp", inner, 3129)
    assert network.reaches("other.corp", inner, 80)
    assert network.loopback_ports == (8080,)
    own = ipaddress.ip_address("127.0.0.1")
    assert network.permits(own, 8080)
    assert not network.permits(own, 80)
    assert Network.read(network.document()) == network


def test_the_remote_runtime_refuses_what_its_protocol_cannot_say() -> None:
    settings = Settings.from_environment({"CWSANDBOX_API_KEY": "key"})
    refused: list[dict[str, Any]] = [
        {"allow_hosts": ("deb.debian.org:80",)},
        {"private_hosts": ("10.0.0.1",), "network": "public"},
    ]
    for options in refused:
        with pytest.raises(UsageError, match="the remote runtime reaches"):
            SandboxRequest(runtime="remote", **options).connect(settings)
    connection = SandboxRequest(runtime="remote", allow_hosts=("pypi.org", "192.0.2.0/24:80")).connect(settings)
    assert connection.has_network


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"network": "internet"}, "network"),
        ({"network": "public", "allow_hosts": ("a.org",)}, "allow_hosts"),
        ({"allow_hosts": ("http://a.org",)}, "allow_hosts"),
        ({"network": "none", "private_hosts": ("10.0.0.1",)}, "private_hosts"),
    ],
)
def test_a_request_names_what_is_wrong_with_its_network(options: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as refused:
        SandboxRequest(**options)
    assert field in refused.value.fields


def spec_of(*rules: pb.EgressRule, denied: bool = False, **annotations: str) -> pb.SandboxSpec:
    names = {"allowed": ALLOWED_HOSTS_ANNOTATION, "private": PRIVATE_HOSTS_ANNOTATION}
    network = pb.NetworkOptions(egress=rules, deny_egress=denied)
    return pb.SandboxSpec(network=network, annotations={names[key]: text for key, text in annotations.items()})


def test_rules_of_the_protocol_name_destinations() -> None:
    found = network_of(
        spec_of(
            pb.EgressRule(https_hostname="*.pypi.org"),
            pb.EgressRule(
                cidr=pb.CidrBlock(cidr="192.0.2.0/24"), ports=[pb.PortRange(port=80, end_port=90, protocol="TCP")]
            ),
            allowed="deb.debian.org:80",
            private="mirror.corp",
        )
    )
    assert found is not None
    assert [str(each) for each in found.allowed] == ["*.pypi.org:443", "192.0.2.0/24:80-90", "deb.debian.org:80"]
    assert [str(each) for each in found.private] == ["mirror.corp:1-65535"]
    assert found.mode is NetworkMode.ALLOWLIST
    public = network_of(spec_of(pb.EgressRule(any=True)))
    assert public is not None
    assert public.mode is NetworkMode.PUBLIC
    assert network_of(spec_of()) is None


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (pb.EgressRule(), "names no destination"),
        (pb.EgressRule(https_hostname="a.org", ports=[pb.PortRange(port=80)]), "443 alone"),
        (pb.EgressRule(https_hostname="192.0.2.1"), "kind of its field"),
        (pb.EgressRule(cidr=pb.CidrBlock(cidr="a.org")), "kind of its field"),
        (pb.EgressRule(cidr=pb.CidrBlock(cidr="192.0.2.1"), ports=[pb.PortRange(port=53, protocol="UDP")]), "than TCP"),
        (pb.EgressRule(any=True, ports=[pb.PortRange(port=80)]), "some ports alone"),
    ],
)
def test_a_rule_that_cannot_be_served_is_refused(rule: pb.EgressRule, why: str) -> None:
    with pytest.raises(Fault, match=why):
        network_of(spec_of(rule))


def test_denied_egress_contradicts_hosts() -> None:
    with pytest.raises(Fault, match="egress is denied"):
        network_of(spec_of(denied=True, allowed="a.org:80"))
    assert network_of(spec_of(denied=True)) is None


def asked(name: bytes, kind: int = 1, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes([len(label)]) + label for label in name.split(b"."))
    return struct.pack("!6H", 7, flags, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def test_a_question_is_answered_with_its_own_text() -> None:
    question = dns.Question.read(asked(b"Example.ORG"))
    assert question.name == "example.org"
    answer = question.answer(dns.Code.FINE, bytes([198, 18, 1, 0]))
    assert answer[12 : 12 + len(question.text)] == asked(b"Example.ORG")[12:]
    assert answer.endswith(bytes([0, 4, 198, 18, 1, 0]))
    assert question.answer(dns.Code.NO_SUCH_NAME)[3] & 15 == dns.Code.NO_SUCH_NAME


def test_a_name_with_other_characters_is_of_no_host() -> None:
    # It would be shown in warnings.
    assert dns.Question.read(asked(b"_http._tcp.example.org")).is_of_host
    for name in (b"\x1b[31m.org", b"a b.org", b"a\n.org"):
        assert not dns.Question.read(asked(name)).is_of_host


@pytest.mark.parametrize(
    "message",
    [
        *(b"", bytes(11), bytes(12), asked(b"a.org")[:-3]),
        *(asked(b"a.org", flags=0x8100), asked(b"a.org", flags=0x2800)),
        struct.pack("!6H", 7, 0, 1, 0, 0, 0) + b"\xc0\x0c" + struct.pack("!2H", 1, 1),
        struct.pack("!6H", 7, 0, 1, 0, 0, 0) + b"\x3fab",
        asked(b"\xff\xfe.org"),
        asked(b".".join([b"a" * 60] * 5)),
        asked(b"a.org")[:-1] + b"\x03",
    ],
)  # fmt: skip
def test_what_is_no_question_is_not_answered(message: bytes) -> None:
    with pytest.raises(dns.MessageError):
        dns.Question.read(message)
