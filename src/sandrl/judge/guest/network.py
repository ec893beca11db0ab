"""The network namespace of a cell."""

from __future__ import annotations

import posix

from sandrl.judge.guest.declarations import Libc
from sandrl.judge.guest.steps import MOST_READ_BYTES, must, write_once

NEW_NETWORK = 0x40000000
AF_INET, SOCK_DGRAM_CLOEXEC, SIOCSIFFLAGS, IFF_UP_RUNNING = 2, 0x80002, 0x8914, 0x41
SOCKET_BUFFER_BYTES = 256 << 10
# What the kernel counts in each network namespace: sockets, packets by interface, and what was asked of each protocol.
# Of what is said of sockets, the first line alone is about this namespace. Labels of flows, which need no packet, stay
# for a while after their socket. A kernel without IPv6 does not have the last two.
NETWORK_COUNTERS = "sockstat", "dev", "snmp", "snmp6", "ip6_flowlabel"
NO_SOCKETS = b"sockets: used 0\n"
COUNTERS_READ = len(NO_SOCKETS), *[MOST_READ_BYTES] * 4


class Network:
    """A network namespace with a loopback interface, for one cell at a time.

    It serves another cell if its counters are what they were when it was made, and no socket of it is left: so nothing
    was sent in it, nor tried. All that cells can change of it otherwise needs a capability, which they do not have.
    """

    def __init__(self, call: Libc) -> None:
        must(call, "unshare", NEW_NETWORK, about="a network namespace")
        self.call = call
        self.descriptor = posix.open("/proc/self/ns/net", posix.O_RDONLY | posix.O_CLOEXEC)
        self.files: list[int] = []
        try:
            self._set_up()
        except OSError:
            self.close()
            raise

    def _set_up(self) -> None:
        socket = must(self.call, "socket", AF_INET, SOCK_DGRAM_CLOEXEC, 0)
        up = b"lo".ljust(16, b"\0") + IFF_UP_RUNNING.to_bytes(2, "little") + bytes(22)
        try:
            must(self.call, "ioctl", socket, SIOCSIFFLAGS, up, about="the loopback interface")
        finally:
            posix.close(socket)
        for name, value in (
            ("tcp_rmem", f"4096 65536 {SOCKET_BUFFER_BYTES}"),
            ("tcp_wmem", f"4096 65536 {SOCKET_BUFFER_BYTES}"),
            # A closed connection that waits keeps its port from the next case of a program, which can see it, too.
            ("tcp_max_tw_buckets", "0"),
        ):
            try:
                write_once(f"/proc/sys/net/ipv4/{name}", value)
            except OSError:
                pass  # what one kernel keeps per namespace, another does not
        for name in NETWORK_COUNTERS:
            try:
                self.files.append(posix.open(f"/proc/self/net/{name}", posix.O_RDONLY))
            except FileNotFoundError:
                pass
        self.counters = self.read_counters()

    def enter(self) -> None:
        must(self.call, "setns", self.descriptor, NEW_NETWORK, about="a network namespace")

    def read_counters(self) -> list[bytes]:
        return list(map(posix.pread, self.files, COUNTERS_READ, (0,) * len(COUNTERS_READ)))

    def is_unused(self) -> bool:
        return self.counters[0] == NO_SOCKETS and self.read_counters() == self.counters

    def close(self) -> None:
        for descriptor in (self.descriptor, *self.files):
            posix.close(descriptor)
