"""The languages in which programs are judged: one table, the source of names, commands and packages.

The names are those of SandboxFusion and MultiPL-E, of fences in Markdown, and of the fields of other formats; letter
case and blanks do not count. The commands are those of SandboxFusion, with the paths that Debian's packages install. A
program has the first form of its language whose marks are found in it. Each form has an example, a program that must
work wherever the form works: if it fails, the tools are missing, and no program in that form is judged by its result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sandrl.errors import InputError

PYTHON = "python"

SOURCE, TYPE, MEMORY = "{source}", "{type}", "{memory}"
"""What commands and file names leave open: the name of the file, the type that `main` is in, and how many MiB a virtual
machine may take of the sandbox's memory."""


@dataclass(frozen=True, slots=True)
class Form:
    """One way in which programs of a language are built.

    Attributes:
        source: The file that a program is written to.
        compile: The command that compiles it there; empty where nothing is compiled.
        run: The command that runs it, in a directory with what the compiler wrote or, without one, with the source.
        packages: The Debian packages that have the commands and what they need.
        example: A program in this form that ends with 0.
        marks: A regular expression that is found in the code of such a program, comments and texts left out.
        unless: A regular expression that is not found there.
    """

    source: str
    compile: tuple[str, ...]
    run: tuple[str, ...]
    packages: tuple[str, ...]
    example: str
    marks: str = ""
    unless: str = ""

    def suits(self, code: str) -> bool:
        """Whether a program may have this form."""
        if self.marks and re.search(self.marks, code, re.MULTILINE) is None:
            return False
        return not self.unless or re.search(self.unless, code, re.MULTILINE) is None


@dataclass(frozen=True, slots=True)
class Language:
    """One language: how it is named, and how a program in it is compiled and run.

    Attributes:
        name: What it is called here, in rows and results.
        aliases: Other names, in lower case.
        forms: The ways in which programs are built; the last is that of all programs that no other is for.
        comment: How a comment that ends with its line begins; empty where comments cannot be left out.
        version: The command that says which version is there.
        environment: Variables, besides those that all programs have.
        has_large_stack: Whether the main thread's stack is bounded by the memory alone, as at online judges.
        empty_program: A program that does nothing, and ends with 0.
    """

    name: str
    aliases: tuple[str, ...]
    forms: tuple[Form, ...]
    comment: str = ""
    version: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    has_large_stack: bool = False
    empty_program: str = field(kw_only=True)

    @property
    def packages(self) -> tuple[str, ...]:
        """The Debian packages of all its forms."""
        return tuple(dict.fromkeys(package for form in reversed(self.forms) for package in form.packages))

    @property
    def command(self) -> str:
        """The program without which nothing in the language works."""
        usual = self.forms[-1]
        return (usual.compile or usual.run)[0]


def _cpp(*libraries: str) -> tuple[str, ...]:
    # Programs for online judges read files where they are not compiled by one.
    return ("g++", "-O2", "-std=c++17", "-pthread", "-DONLINE_JUDGE", SOURCE, "-o", "program", *libraries)


def _go(*command: str) -> tuple[str, ...]:
    return ("go", *command, "-o", "program", SOURCE)


def _node(source: str) -> tuple[str, ...]:
    return ("node", f"--max-old-space-size={MEMORY}", source)


# Where sandboxes are small, the virtual machine must not size itself by the memory of the machine.
_JVM = ("-XX:+UseSerialGC", f"-Xmx{MEMORY}m")
_CLASS_PATH = ".:/usr/share/java/javatuples.jar"
_JAVAC = (
    *("javac", *(f"-J{option}" for option in _JVM), "-J-XX:TieredStopAtLevel=1"),
    *("-encoding", "UTF-8", "-proc:none", "-nowarn", "-d", ".", "-cp", _CLASS_PATH, SOURCE),
)
# Recursion gets eight times the depth of the default, and there is still room for a hundred threads.
_JAVA = ("java", *_JVM, "-Xss8m", "-XX:-UsePerfData", "-DONLINE_JUDGE=true", "-ea", "-cp", _CLASS_PATH, TYPE)


def _java(imports: str, printed: str, marks: str = "", *packages: str) -> Form:
    example = (
        f"{imports}public class Main {{\n  public static void main(String[] args) {{\n"
        f"    System.out.println({printed});\n  }}\n}}\n"
    )
    return Form(f"{TYPE}.java", _JAVAC, _JAVA, ("default-jdk-headless", *packages), example, marks)


# Debian's and npm's `tsc` lie beside their library, whose compiler alone takes a fifth of the time: types are left out,
# not checked, as by esbuild and tsx. So a right program does not fail for a declaration that is not installed.
_TRANSPILER = r"""
const fs = require('fs'), path = require('path'), [source, target] = process.argv.slice(1);
const tsc = process.env.PATH.split(':').map(each => path.join(each, 'tsc')).find(each => fs.existsSync(each));
if (!tsc) { console.error('tsc: command not found'); process.exit(127); }
const ts = require(path.join(path.dirname(fs.realpathSync(tsc)), '..', 'lib', 'typescript.js'));
const options = { target: ts.ScriptTarget.ES2022, esModuleInterop: true, newLine: ts.NewLineKind.LineFeed };
options.module = target.endsWith('.mjs') ? ts.ModuleKind.ESNext : ts.ModuleKind.CommonJS;
const given = { fileName: source, reportDiagnostics: true, compilerOptions: options };
const result = ts.transpileModule(fs.readFileSync(source, 'utf8'), given);
const host = { getCanonicalFileName: name => name, getCurrentDirectory: () => '', getNewLine: () => '\n' };
if (result.diagnostics.length) {
  process.stderr.write(ts.formatDiagnostics(result.diagnostics, host));
  process.exit(1);
}
fs.writeFileSync(target, result.outputText);
"""


def _tsc(target: str) -> tuple[str, ...]:
    return ("node", f"--max-old-space-size={MEMORY}", "-e", _TRANSPILER, SOURCE, target)


# A program whose statements say that it is a module, not a script: the same file cannot be both.
_IS_MODULE, _IS_SCRIPT = r"^[ \t]*(import\b(?!\s*[(.])|export\b)", r"\brequire\s*\(|\bmodule\.exports\b"
_MODULE, _SCRIPT = "import fs from 'fs';\nif (!fs) throw 1;\n", "const one = 1;\nconsole.log(one);\n"
_TYPESCRIPT = ("nodejs", "node-typescript")
_PHP = ("memory_limit=-1", "display_errors=stderr", "html_errors=0", "zend.assertions=1", "opcache.enable_cli=0")

LANGUAGES = (
    Language(
        PYTHON,
        ("py", "py3", "pypy", "pytest"),
        (Form("solution.py", (), ("python", "solution.py"), (), ""),),
        empty_program="pass",
    ),
    Language(
        "cpp",
        ("c++", "cxx", "cc", "c++17", "cpp17", "g++"),
        (
            Form(
                "main.cpp",
                _cpp("-lssl", "-lcrypto"),
                ("./program",),
                ("g++", "libssl-dev"),
                "#include <openssl/md5.h>\nint main() { return MD5(0, 0, 0) == 0; }\n",
                marks=r"^[ \t]*#\s*include\s*<openssl/",
            ),
            Form("main.cpp", _cpp(), ("./program",), ("g++",), "#include <iostream>\nint main() { std::cout << 1; }\n"),
        ),
        comment="//",
        empty_program="int main() { return 0; }\n",
        version=("g++", "--version"),
        has_large_stack=True,
    ),
    Language(
        "c",
        ("c11", "c17", "gcc"),
        (
            Form(
                "main.c",
                ("gcc", "-O2", "-std=gnu17", "-pthread", SOURCE, "-o", "program", "-lm"),
                ("./program",),
                ("gcc", "libc6-dev"),
                '#include <stdio.h>\nint main(void) { return printf("1") != 1; }\n',
            ),
        ),
        comment="//",
        empty_program="int main() { return 0; }\n",
        version=("gcc", "--version"),
        has_large_stack=True,
    ),
    Language(
        "javascript",
        ("js", "nodejs", "node", "ecmascript", "mjs"),
        (
            Form("main.mjs", (), _node("main.mjs"), ("nodejs",), _MODULE, _IS_MODULE, _IS_SCRIPT),
            Form("main.js", (), _node("main.js"), ("nodejs",), "console.log(1);\n"),
        ),
        comment="//",
        empty_program=";\n",
        version=("node", "--version"),
    ),
    Language(
        "typescript",
        ("ts", "tsx"),
        (
            Form("main.ts", _tsc("main.mjs"), _node("main.mjs"), _TYPESCRIPT, _MODULE, _IS_MODULE, _IS_SCRIPT),
            Form("main.ts", _tsc("main.js"), _node("main.js"), _TYPESCRIPT, _SCRIPT),
        ),
        comment="//",
        empty_program=";\n",
        version=("tsc", "--version"),
    ),
    Language(
        "go",
        ("golang", "go_test", "go_test.go"),
        (
            Form(
                "main_test.go",
                _go("test", "-c"),
                ("./program",),
                ("golang-go",),
                'package main\nimport "testing"\nfunc TestOne(t *testing.T) {}\n',
                marks=r"\bfunc\s+Test\w*\s*\(\s*\w+\s+\*\s*testing\.T\b",
                unless=r"\bfunc\s+main\s*\(\s*\)",
            ),
            Form(
                *("main.go", _go("build"), ("./program",), ("golang-go",)),
                'package main\nimport "fmt"\nfunc main() { fmt.Println(1) }\n',
            ),
        ),
        comment="//",
        empty_program="package main\n\nfunc main() {}\n",
        version=("go", "version"),
        # No network, and no `.git` directory to ask.
        environment=(("GOPROXY", "off"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", "-buildvcs=false")),
    ),
    Language(
        "rust",
        ("rs",),
        (
            Form(
                "main.rs",
                # Optimised, and an overflow ends the program, as without `-O`: tests were written with that.
                ("rustc", "-O", "-Cdebug-assertions=on", "--edition=2021", "-Awarnings", SOURCE, "-o", "program"),
                ("./program",),
                ("rustc",),
                'fn main() { println!("1"); }\n',
            ),
        ),
        comment="//",
        empty_program="fn main() {}\n",
        version=("rustc", "--version"),
        has_large_stack=True,
    ),
    Language(
        "java",
        (),
        (
            _java("import org.javatuples.Pair;\n", "Pair.with(1, 2)", r"\borg\.javatuples\b", "libjavatuples-java"),
            _java("", "1"),
        ),
        comment="//",
        empty_program="class Main {\n    public static void main(String[] args) {}\n}\n",
        version=("javac", "-version"),
    ),
    Language(
        "bash",
        ("sh", "shell", "shellscript"),
        (Form("main.sh", (), ("bash", "main.sh"), ("bash",), "echo 1\n"),),
        empty_program=":\n",
        version=("bash", "--version"),
    ),
    Language(
        "ruby",
        ("rb",),
        (
            Form(
                *("main.rb", (), ("ruby", "main.rb"), ("ruby", "ruby-test-unit")),
                "require 'test/unit'\nclass TestOne < Test::Unit::TestCase\n  def test_one\n    assert_equal(1, 1)\n"
                "  end\nend\n",
                marks=r"^[ \t]*require\s+[\"']test/unit\b",
            ),
            Form("main.rb", (), ("ruby", "main.rb"), ("ruby",), "puts 1\n"),
        ),
        empty_program="nil\n",
        version=("ruby", "--version"),
    ),
    Language(
        "php",
        (),
        (
            Form(
                "main.php",
                (),
                ("php", *(word for option in _PHP for word in ("-d", option)), "-f", "main.php"),
                ("php-cli",),
                "<?php\necho 1;\n",
            ),
        ),
        empty_program="<?php\n",
        version=("php", "--version"),
    ),
    Language(
        "perl",
        ("pl",),
        (
            Form(
                *("main.pl", (), ("perl", "main.pl"), ("perl", "libtest-deep-perl")),
                "use Test::Deep;\nprint 1;\n",
                marks=r"^[ \t]*use\s+Test::Deep\b",
            ),
            Form("main.pl", (), ("perl", "main.pl"), ("perl",), "print 1;\n"),
        ),
        empty_program="1;\n",
        version=("perl", "--version"),
    ),
    Language(
        "lua",
        (),
        (
            Form(
                *("main.lua", (), ("lua", "main.lua"), ("lua5.4", "lua-unit"), "require('luaunit')\n"),
                marks=r"\brequire\s*\(?\s*[\"']luaunit\b",
            ),
            Form("main.lua", (), ("lua", "main.lua"), ("lua5.4",), "print(1)\n"),
        ),
        empty_program="do end\n",
        version=("lua", "-v"),
    ),
    Language(
        "r",
        ("rscript",),
        (Form("main.R", (), ("Rscript", "main.R"), ("r-base-core",), "cat(1)\n"),),
        empty_program="invisible(NULL)\n",
        version=("Rscript", "--version"),
    ),
)

_BY_NAME = {name: language for language in LANGUAGES for name in (language.name, *language.aliases)}
_VERSIONED_PYTHON = re.compile(r"(python|py|pypy)[ -]?3?(\.\d+)*")
_NAMES = ", ".join(language.name for language in LANGUAGES)


def find_language(name: str) -> Language | None:
    """The language of a name or an alias, in any letter case; None if it is not in the table."""
    folded = name.strip().casefold()
    if _VERSIONED_PYTHON.fullmatch(folded):
        folded = PYTHON
    return _BY_NAME.get(folded)


def language_named(name: str, field: str = "language") -> Language:
    """The language of a name or an alias; `InputError` if it is not in the table."""
    found = find_language(name)
    if found is None:
        raise InputError(f"is {name!r:.40}, which is not a supported language ({_NAMES})", field=field)
    return found
