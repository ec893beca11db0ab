"""The network namespace of a sandbox whose connections a gate serves.

The namespace has one interface, a `veth` whose other end is in it too, so that no packet ever leaves. Rules of nftables
send every TCP connection to one listening socket and every question to a name server to another, and drop the rest,
which fails at once. The gate gets these sockets: it accepts connections, asks the kernel where each was to
go, and makes the real ones in the network of the host. So what a program may reach is decided outside of its sandbox.

Routes, addresses and rules are made with messages of netlink, because the host may lack the programs for that.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

from sandrl.runtime.guest import syscalls as sc

GATEWAY, ADDRESS, PREFIX_BITS = "198.18.0.1", "198.18.0.2", 15
GATEWAY6, ADDRESS6, PREFIX6_BITS = "fd73:616e:6472::c612:1", "fd73:616e:6472::c612:2", 64
"""Those of RFC 2544 for tests of networks, which no host has, and a private prefix; names get addresses of them."""
RESOLVER = f"nameserver {GATEWAY}\n"

_PORT = 1
"""Of the listening sockets, on loopback: one that no program wants."""
_BACKLOG = 512
_QUESTIONS_BYTES = 1 << 20

_TIMEOUTS = {"udp_timeout": "5", "udp_timeout_stream": "5", "tcp_timeout_time_wait": "1", "tcp_timeout_close": "1"}

_ROUTE, _NETFILTER = 0, 12
_REQUEST, _ACKNOWLEDGE, _CREATE, _EXCLUSIVE, _APPEND = 0x1, 0x4, 0x400, 0x200, 0x800
_ERROR = 2
_NESTED = 0x8000
_UP = 1
_INET, _OUTPUT, _LOADS_ADDRESS, _LOADS_PORT, _LOADS_FAMILY, _LOADS_PROTOCOL = 1, 3, 1, 2, 15, 16
_NAT_PRIORITY, _FILTER_PRIORITY = -100, 0
_VERDICT_ACCEPT = 1
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_IPV4, _IPV6 = 2, 10


class NetworkError(OSError):
    """The kernel lacks what a network takes."""


def set_up(loopback_ports: Sequence[int]) -> list[int]:
    """Set up the current network namespace, whose loopback is up.

    Args:
        loopback_ports: TCP ports of its own loopback that lead to the gate as well, because the host's are meant.

    Returns:
        Descriptors of the sockets for the gate: listening ones for TCP, then those for UDP.

    Raises:
        NetworkError: If the kernel lacks something, which the message names.
    """
    try:
        listeners = _sockets(socket.SOCK_STREAM)
        has_ipv6 = len(listeners) > 1
        _make_interface(has_ipv6)
        _make_rules(has_ipv6, loopback_ports)
        # The kernel keeps what it knows of a connection no longer than it needs that.
        sc.configure_network({f"netfilter/nf_conntrack_{name}": value for name, value in _TIMEOUTS.items()})
        return listeners + _sockets(socket.SOCK_DGRAM)
    except OSError as error:
        raise NetworkError(error.errno, f"this kernel gives sandboxes no network: {error.strerror}") from error


def _sockets(kind: socket.SocketKind) -> list[int]:
    # For each version of the protocol that this kernel has.
    made = []
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            each = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            each.bind((address, _PORT))
        except OSError:
            if family == socket.AF_INET:
                raise
            break
        if kind == socket.SOCK_STREAM:
            each.listen(_BACKLOG)
        else:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUESTIONS_BYTES)
        made.append(each.detach())
    return made


def _make_interface(has_ipv6: bool) -> None:
    name, peer = _text(3, "eth0"), _text(3, "gate")
    link, up = (struct.pack("=BxHiII", 0, 0, 0, flags, flags) for flags in (0, _UP))
    kind = _nested(18, _text(1, "veth"), _nested(2, _attribute(1, link + peer)))
    with _netlink(_ROUTE) as route:
        _ask(route, "veth", _message(16, _CREATE | _EXCLUSIVE, link + name + kind))
        for each in (name, peer):
            _ask(route, "veth", _message(16, 0, up + each))
        index = socket.if_nametoindex("eth0")
        for family, own, gateway, bits in (
            (socket.AF_INET, ADDRESS, GATEWAY, PREFIX_BITS),
            (socket.AF_INET6, ADDRESS6, GATEWAY6, PREFIX6_BITS),
        )[: 1 + has_ipv6]:
            packed, no_detection = socket.inet_pton(family, own), 2
            body = struct.pack("=BBBBI", family, bits, no_detection, 0, index)
            body += _attribute(2, packed) + _attribute(1, packed)
            _ask(route, "address", _message(20, _CREATE, body))
            table, protocol, universe, unicast = 254, 3, 0, 1
            body = struct.pack("=BBBBBBBBI", family, 0, 0, 0, table, protocol, universe, unicast, 0)
            body += _attribute(5, socket.inet_pton(family, gateway)) + _attribute(4, struct.pack("=I", index))
            _ask(route, "route", _message(24, _CREATE, body))


def _make_rules(has_ipv6: bool, loopback_ports: Sequence[int]) -> None:
    table = _text(1, "sandrl")
    own = [_to(_IPV4, b"\x7f"), _to(_IPV4, socket.inet_aton(ADDRESS))]
    loopbacks = own[:1]
    if has_ipv6:
        own += [_to(_IPV6, socket.inet_pton(socket.AF_INET6, address)) for address in ("::1", ADDRESS6)]
        loopbacks.append(own[2])
    accept = _expression("immediate", _number(1, 0), _nested(2, _nested(2, _number(1, _VERDICT_ACCEPT))))
    redirect = _expression("immediate", _number(1, 1), _nested(2, _attribute(1, struct.pack("!H", _PORT))))
    redirect += _expression("redir", _number(1, 1))
    tcp, udp = (_of(_LOADS_PROTOCOL, bytes([number])) for number in (socket.IPPROTO_TCP, socket.IPPROTO_UDP))
    nat = [loopback + tcp + _port(port) + redirect for port in loopback_ports for loopback in loopbacks]
    nat += [each + accept for each in own]
    nat += [tcp + redirect, udp + _port(53) + redirect]
    messages = [_rules(0, table)]
    for name, kind, priority, policy, rules in (
        ("nat", "nat", _NAT_PRIORITY, 1, nat),
        ("out", "filter", _FILTER_PRIORITY, 0, [each + accept for each in own]),
    ):
        hook = _nested(4, _number(1, _OUTPUT), _attribute(2, struct.pack("!i", priority)))
        messages.append(_rules(3, table, _text(3, name), hook, _number(5, policy), _text(7, kind)))
        messages += [_rules(6, table, _text(2, name), _nested(4, rule)) for rule in rules]
    header = struct.pack("!BBH", 0, 0, 10)
    # Errors are always answered; of what went well, only the last message is.
    messages[-1] = messages[-1][:6] + struct.pack("=H", _REQUEST | _CREATE | _APPEND | _ACKNOWLEDGE) + messages[-1][8:]
    batch = _message(16, 0, header, False), *messages, _message(17, 0, header, False)
    with _netlink(_NETFILTER) as netfilter:
        _ask(netfilter, "nftables", b"".join(batch))


def _netlink(protocol: int) -> socket.socket:
    try:
        return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    except OSError as error:
        raise OSError(error.errno, f"netlink {protocol}: {error.strerror}") from error


def _ask(netlink: socket.socket, what: str, request: bytes) -> None:
    netlink.send(request)
    answer = netlink.recv(1 << 16)
    _length, kind, _flags, _sequence, _port = struct.unpack_from("=IHHII", answer)
    number = -struct.unpack_from("=i", answer, 16)[0] if kind == _ERROR else 0
    if number:
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _message(kind: int, flags: int, body: bytes, acknowledged: bool = True) -> bytes:
    flags |= _REQUEST | (_ACKNOWLEDGE if acknowledged else 0)
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 0, 0) + body


def _rules(kind: int, *attributes: bytes) -> bytes:
    body = struct.pack("!BBH", _INET, 0, 0) + b"".join(attributes)
    return _message(10 << 8 | kind, _CREATE | _APPEND, body, False)


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _nested(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(attributes))


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!I", value))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _expression(name: str, *attributes: bytes) -> bytes:
    return _nested(1, _text(1, name), _nested(2, *attributes))


def _equals(value: bytes) -> bytes:
    return _expression("cmp", _number(1, 1), _number(2, 0), _nested(3, _attribute(1, value)))


def _of(fact: int, value: bytes) -> bytes:
    return _expression("meta", _number(2, fact), _number(1, 1)) + _equals(value)


def _at(header: int, offset: int, value: bytes) -> bytes:
    place = _number(1, 1), _number(2, header), _number(3, offset), _number(4, len(value))
    return _expression("payload", *place) + _equals(value)


def _to(family: int, start: bytes) -> bytes:
    """A destination whose address begins with these bytes."""
    return _of(_LOADS_FAMILY, bytes([family])) + _at(_NETWORK_HEADER, 16 if family == _IPV4 else 24, start)


def _port(number: int) -> bytes:
    return _at(_TRANSPORT_HEADER, 2, struct.pack("!H", number))
