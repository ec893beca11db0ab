# Programs that make files: each case starts from the same ones, so what one has made is not there in the next.

# === doubling problem
# --- stdin
3
# --- stdout
6
# --- stdin
4
# --- stdout
8
# --- stdin
5
# --- stdout
10

# === mkdir of=doubling
import os

n = int(input())
os.mkdir("work")
print(2 * n)

# === makedirs-in-tmp of=doubling
import os

n = int(input())
os.makedirs("/tmp/work/deep/er")
print(2 * n)

# === exclusive-creation of=doubling
n = int(input())
with open("answer.txt", "x") as file:
    file.write(str(2 * n))
print(open("answer.txt").read())

# === append-and-read of=doubling
n = int(input())
with open("numbers.txt", "a") as file:
    file.write(f"{n}\n")
print(2 * sum(map(int, open("numbers.txt"))))

# === sqlite-file of=doubling
import sqlite3

n = int(input())
connection = sqlite3.connect("work.db")
connection.execute("create table numbers (n integer)")
connection.execute("insert into numbers values (?)", (2 * n,))
connection.commit()
print(connection.execute("select sum(n) from numbers").fetchone()[0])

# === shelve of=doubling
import shelve

n = int(input())
with shelve.open("memo") as memo:
    memo[str(n)] = 2 * n
    print(sum(memo.values()))

# === temporary-names of=doubling
import os
import tempfile

n = int(input())
folder = tempfile.mkdtemp()
descriptor, name = tempfile.mkstemp(dir=folder)
os.write(descriptor, b"%d" % (2 * n))
print(len(os.listdir(folder)) * int(open(name).read()))

# === module-of-its-own of=doubling
n = int(input())
with open("doubling.py", "x") as file:
    file.write(f"answer = {2 * n}\n")
import doubling

print(doubling.answer)

# === memo-in-home of=doubling
import json
import os

n = int(input())
path = os.path.expanduser("~/.memo/values.json")
memo = json.load(open(path)) if os.path.exists(path) else {}
memo[str(n)] = 2 * n
os.makedirs(os.path.dirname(path), exist_ok=False)
json.dump(memo, open(path, "w"))
print(sum(memo.values()))

# === removes-itself of=doubling
import os

n = int(input())
os.remove(__file__)
print(2 * n)

# === closed-directory of=doubling
import os

n = int(input())
os.makedirs("closed/inner")
os.chmod("closed", 0)
print(2 * n)

# === links of=doubling
import os

n = int(input())
os.symlink("/tmp", "/tmp/self")
os.symlink("/nowhere", "broken")
print(2 * n)

# === many-files of=doubling
import os

n = int(input())
os.mkdir("many")
for number in range(500):
    with open(f"many/{number}", "x") as file:
        file.write("x")
print(2 * n + len(os.listdir("many")) - 500)

# === server-on-a-port of=doubling
import socket

n = int(input())
server = socket.socket()
server.bind(("127.0.0.1", 8080))
server.listen()
client = socket.create_connection(("127.0.0.1", 8080))
other, _ = server.accept()
other.sendall(b"%d" % (2 * n))
other.close()
print(int(client.recv(100)))

# === socket-in-tmp of=doubling
import socket

n = int(input())
server = socket.socket(socket.AF_UNIX)
server.bind("/tmp/own.sock")
print(2 * n)

# === leaves-a-child of=doubling
import subprocess

n = int(input())
subprocess.Popen(["sleep", "30"], start_new_session=True)
print(2 * n)

# === pipe-with-a-name of=doubling
import os

n = int(input())
os.mkfifo("pipe")
print(2 * n)

# === reuses-an-earlier-answer wrong
import os

n = int(input())
if not os.path.exists("answer"):
    with open("answer", "w") as file:
        file.write(str(2 * n))
print(2 * n if open("answer").read() != str(2 * n) else 6)
# --- stdin
3
# --- stdout
6
# --- stdin
4
# --- stdout
8
