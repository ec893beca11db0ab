"""The gate of one sandbox answers its questions for names, and serves its connections."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from sandrl.runtime.gate import dns
from sandrl.runtime.gate.names import Names, ResolutionError, UnknownNameError
from sandrl.runtime.guest.network import GATEWAY, GATEWAY6
from sandrl.runtime.limits import CONNECTIONS
from sandrl.runtime.network import Address, Network

_MOST_QUESTIONS = 256
_SECONDS_PER_QUESTION, _SECONDS_PER_KNOWN_NAME, _MOST_SECONDS_AHEAD = 0.01, 0.001, 5.0
_MOST_NOTED = 1000
"""Refused connections, and as many names."""
_CONNECT_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_CHUNK_BYTES = 64 << 10
_FAR_BUFFER_BYTES = 256 << 10
_MESSAGE_BYTES = 4096
_ORIGINAL_DESTINATION = 80
_OWN_ADDRESSES = frozenset(map(ipaddress.ip_address, (GATEWAY, GATEWAY6)))
_DNS_PORT = 53


class RefusedError(Exception):
    """A destination is not allowed; the message says why."""


@dataclass(slots=True)
class Destination:
    """Where a connection of a program goes.

    Attributes:
        host: The name that the program has asked for; None if it has connected to an address.
        asked: That address.
        address: What the gate has connected to; empty before, or if it has not.
    """

    host: str | None
    asked: str
    port: int
    connect: Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]] = field(repr=False)
    address: str = ""

    @property
    def name(self) -> str:
        return self.host or self.asked


class Recorder(Protocol):
    """Serves connections to some ports in place of the gate."""

    @property
    def is_offline(self) -> bool:
        """Whether it needs no connections, so that the sandbox gets none."""

    def takes(self, port: int) -> bool:
        """Whether it serves the connections to a port."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, destination: Destination) -> None:
        """Serve one connection of a program, which is allowed, until it ends; the gate closes it then.

        `await destination.connect()` makes the real connection, or raises `RefusedError` or `OSError`.
        """


@dataclass(slots=True)
class Connection:
    """One connection or question for a name (port 0), as the daemon is told; without a host, what befell them all."""

    host: str
    port: int
    time: float = field(default_factory=time.time)
    address: str = ""
    refused: str = ""
    error: str = ""
    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0


class SandboxGate:
    """Serves the sockets of one sandbox until `close`.

    Args:
        tell: Called with each connection once it has ended.
        tell_reached: Called with the name and the port as soon as one is connected.
        everyone: A permit for each connection of all sandboxes together.
        recorder: What serves HTTP; None if nothing is recorded.
    """

    def __init__(
        self,
        network: Network,
        sockets: list[socket.socket],
        tell: Callable[[dict[str, Any]], None],
        tell_reached: Callable[[str, int], None],
        everyone: asyncio.Semaphore,
        recorder: Recorder | None = None,
    ) -> None:
        self._network = network
        self._tell = tell
        self._tell_reached = tell_reached
        self._recorder = recorder
        self._everyone = everyone
        self._names = Names()
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._noted: dict[bool, set[tuple[str, int]]] = {False: set(), True: set()}
        self._questions = 0
        self._is_closed = False
        self._next_question = 0.0
        self._listeners = [each for each in sockets if each.type == socket.SOCK_STREAM]
        self._has_ipv6 = len(self._listeners) > 1
        self._datagrams = [each for each in sockets if each.type == socket.SOCK_DGRAM]
        for each in self._listeners:
            self._spawn(self._accept(each))
        for each in self._datagrams:
            self._loop.add_reader(each, self._receive, each)

    async def close(self) -> None:
        """End every connection; each has been reported then."""
        self._is_closed = True
        for each in self._datagrams:
            self._loop.remove_reader(each)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in (*self._datagrams, *self._listeners):
            each.close()
        self._names.close()

    @property
    def _is_offline(self) -> bool:
        return self._recorder is not None and self._recorder.is_offline

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            await self._slots.acquire()
            await self._everyone.acquire()
            try:
                accepted, _ = await self._loop.sock_accept(listener)
            except OSError:
                # No descriptors or no memory are left, for now.
                self._release()
                await asyncio.sleep(_PAUSE_SECONDS)
            except asyncio.CancelledError:
                self._release()
                raise
            else:
                self._spawn(self._serve(accepted)).add_done_callback(lambda _: self._release())

    def _release(self) -> None:
        self._everyone.release()
        self._slots.release()

    async def _serve(self, accepted: socket.socket) -> None:
        writer = None
        try:
            address, port = _original_destination(accepted)
            reader, writer = await asyncio.open_connection(sock=accepted, limit=_CHUNK_BYTES)
            if port == _DNS_PORT and address in _OWN_ADDRESSES:
                await self._answer_stream(reader, writer)
            else:
                await self._connect(reader, writer, address, port)
        except (OSError, EOFError):
            pass  # the program has gone away, or never was there
        finally:
            if writer is None:
                accepted.close()
            else:
                _reset(writer)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address, port: int
    ) -> None:
        name = self._names.name_of(address)
        destination = Destination(name, str(address), port, lambda: self._reach(destination, name or address))
        record = Connection(destination.name, port)
        started = time.monotonic()
        try:
            if not self._network.permits(name or address, port):
                raise RefusedError("it is not allowed")
            if self._recorder is not None and self._recorder.takes(port):
                await self._recorder.serve(reader, writer, destination)
            elif self._is_offline:
                raise RefusedError("a recording is replayed, which has no such port")
            else:
                far_reader, far_writer = await destination.connect()
                try:
                    await _relay(record, reader, writer, far_reader, far_writer)
                finally:
                    far_writer.transport.abort()
        except RefusedError as error:
            record.refused = str(error)
        except (OSError, ResolutionError, UnknownNameError) as error:
            record.error = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        finally:
            record.address = destination.address
            record.seconds = round(time.monotonic() - started, 3)
            self._note(record)

    async def _reach(
        self, destination: Destination, host: str | Address
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = destination.port
        failure: OSError | None = None
        if not isinstance(host, str) and host.is_loopback:
            reachable = self._network.loopback(port)
        else:
            addresses = [host] if not isinstance(host, str) else await self._names.resolve(host)
            reachable = [each for each in addresses if self._network.reaches(host, each, port)]
            if not reachable:
                raise RefusedError(f"{addresses[0]} is an address of this machine or of its networks, or a special one")
        for each in reachable:
            destination.address = str(each)
            try:
                opened = await self._open(each, port)
            except OSError as error:
                failure = error
            else:
                self._tell_reached(destination.name, port)
                return opened
        assert failure is not None, "there was one address at least"
        raise failure

    async def _open(self, address: Address, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        far = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        try:
            far.setblocking(False)
            for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                far.setsockopt(socket.SOL_SOCKET, buffer, _FAR_BUFFER_BYTES)
            await asyncio.wait_for(self._loop.sock_connect(far, (str(address), port)), _CONNECT_SECONDS)
            return await asyncio.open_connection(sock=far, limit=_CHUNK_BYTES)
        except TimeoutError:
            far.close()
            raise OSError(0, f"no answer within {_CONNECT_SECONDS:g} s") from None
        except BaseException:
            far.close()
            raise

    def _note(self, record: Connection) -> None:
        if record.refused or not record.port:
            # Each once: a program may try again and again.
            key, noted = (record.host, record.port), self._noted[not record.port]
            if key in noted or len(noted) > _MOST_NOTED:
                return
            noted.add(key)
            if len(noted) > _MOST_NOTED:
                what = "refused connections" if record.port else "names"
                record = Connection("", 0, error=f"it has more than {_MOST_NOTED} {what}; the others are not recorded")
        self._tell(asdict(record))

    def _receive(self, datagrams: socket.socket) -> None:
        while self._questions < _MOST_QUESTIONS:
            try:
                message, client = datagrams.recvfrom(_MESSAGE_BYTES)
            except OSError:
                return
            self._questions += 1
            self._spawn(self._answer_datagram(datagrams, message, client))
        # The kernel keeps the next ones for a while.
        for each in self._datagrams:
            self._loop.remove_reader(each)

    async def _answer_datagram(self, datagrams: socket.socket, message: bytes, client: Any) -> None:
        try:
            answer = await self._answer(message)
            if answer:
                with contextlib.suppress(OSError):
                    datagrams.sendto(answer, client)
        finally:
            if self._questions == _MOST_QUESTIONS and not self._is_closed:
                for each in self._datagrams:
                    self._loop.add_reader(each, self._receive, each)
            self._questions -= 1

    async def _answer_stream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            length = int.from_bytes(await reader.readexactly(2))
            answer = await self._answer(await reader.readexactly(length))
            if not answer:
                return
            writer.write(len(answer).to_bytes(2) + answer)
            await writer.drain()

    async def _answer(self, message: bytes) -> bytes:
        try:
            question = dns.Question.read(message)
        except dns.MessageError:
            await self._wait_for_turn(_SECONDS_PER_QUESTION)
            return b""
        name = question.name
        await self._wait_for_turn(_SECONDS_PER_KNOWN_NAME if self._names.knows(name) else _SECONDS_PER_QUESTION)
        if not question.is_of_host or not self._network.answers(name):
            self._note(Connection(name, 0, refused="it is not allowed"))
            return question.answer(dns.Code.NO_SUCH_NAME)
        try:
            addresses = [] if self._is_offline else await self._names.resolve(name)
        except UnknownNameError:
            self._note(Connection(name, 0))
            return question.answer(dns.Code.NO_SUCH_NAME)
        except ResolutionError as error:
            self._note(Connection(name, 0, error=str(error)))
            return question.answer(dns.Code.FAILED)
        self._note(Connection(name, 0))
        is_ipv6 = question.kind == dns.AAAA
        if question.kind != dns.A and not (is_ipv6 and self._has_ipv6):
            return question.answer(dns.Code.FINE)
        address = self._names.address_of(name, addresses, is_ipv6=is_ipv6)
        return question.answer(dns.Code.FAILED) if address is None else question.answer(dns.Code.FINE, address.packed)

    async def _wait_for_turn(self, seconds: float) -> None:
        # A question beyond the rate is answered late, which a program waits for, instead of with a failure.
        now = time.monotonic()
        turn = max(self._next_question, now - _MOST_SECONDS_AHEAD)
        self._next_question = turn + seconds
        await asyncio.sleep(max(turn - now, 0))


async def _relay(
    record: Connection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, count: str) -> None:
        while chunk := await source.read(_CHUNK_BYTES):
            target.write(chunk)
            await target.drain()
            setattr(record, count, getattr(record, count) + len(chunk))
        target.write_eof()

    pumps = [
        asyncio.ensure_future(pump(reader, far_writer, "sent_bytes")),
        asyncio.ensure_future(pump(far_reader, writer, "received_bytes")),
    ]
    try:
        done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
        for each in done:
            each.result()
    finally:
        for each in pumps:
            each.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
    for side in (writer, far_writer):
        side.close()
        await side.wait_closed()


def _original_destination(accepted: socket.socket) -> tuple[Address, int]:
    if accepted.family == socket.AF_INET:
        packed = accepted.getsockopt(socket.IPPROTO_IP, _ORIGINAL_DESTINATION, 16)
        address: Address = ipaddress.IPv4Address(packed[4:8])
    else:
        packed = accepted.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
        address = ipaddress.IPv6Address(packed[8:24])
    return address, int.from_bytes(packed[2:4])


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection; what was not read or written makes the program see that it was cut off."""
    own = writer.get_extra_info("socket")
    if own is not None and not (writer.transport.is_closing()):
        with contextlib.suppress(OSError):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
