"""Reads source in each language without its compiler: comments and strings, braces, and definitions.

This uses tables of regular expressions, which take linear time. The compiler gives the verdict, in the sandbox; the
tables only decide where the code of an answer is, and how it is joined to the code that its problem gives.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

_DOUBLE = r'"(?:[^"\\\n]|\\.)*+"?'
_SINGLE = r"'(?:[^'\\\n]|\\.)*+'?"
_DOUBLE_LONG = r'"(?:[^"\\]|\\.)*+"?'
_SINGLE_LONG = r"'(?:[^'\\]|\\.)*+'?"
_CHARACTER = r"'(?:\\[^\n]{1,9}?|[^'\\\n])'"
_TEMPLATE = r"`(?:[^`\\]|\\.)*+`?"
_SLASHES = r"//[^\n]*+"
_BLOCK = r"/\*(?s:.*?)(?:\*/|\Z)"
_HASH = r"(?:(?<=[\s;(])|^)#[^\n]*+"
_REGEX = r"(?<=[=(,:\[!&|?{};\n])[ \t]*+/(?![*/ \n])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.){0,99}+\]){1,299}+/[a-z]*"
_PREPROCESSOR = r"^[ \t]*+#(?:[^\\\n]|\\(?s:.))*+"


@dataclass(frozen=True)
class Syntax:
    """How source in a language is read; its expressions are compiled on use, because most languages are not used.

    Attributes:
        opener: The beginning of a function that does nothing, for tests that begin with the end of one.
        closes: What ends a function: `}`, or a line with such a word.
        is_script: Whether what stands at the top level runs.
        redefines: Whether a later definition of a name replaces an earlier one.
        has_methods: Whether functions stand in classes.
    """

    hidden_texts: tuple[str, ...]
    definition_text: str | None
    opener: str
    imports_text: str
    begins_text: str
    closes: str = "}"
    is_script: bool = False
    redefines: bool = False
    has_methods: bool = False

    @cached_property
    def hidden(self) -> re.Pattern[str]:
        """Comments and strings, and other text in which braces and names mean nothing."""
        return re.compile("|".join(self.hidden_texts), re.MULTILINE)

    @cached_property
    def definition(self) -> re.Pattern[str] | None:
        """The beginning of a definition at the top level, with its name in the group `name`.

        None where a function has no keyword, as in C, C++ and Java.
        """
        return None if self.definition_text is None else re.compile(self.definition_text, re.MULTILINE)

    @cached_property
    def imports(self) -> re.Pattern[str]:
        """Lines at the top level that other lines need."""
        return re.compile(self.imports_text, re.MULTILINE)

    @cached_property
    def begins(self) -> re.Pattern[str]:
        """How a line of code may begin; most lines of sentences do not."""
        anywhere = r"[\w$@.&*:\[\]]++[ \t]*+[=(\[]|(?![<`~])[^\n]*+(?<=[;{}(])"
        return re.compile(rf"[ \t]*+(?:{self.begins_text}|{anywhere})")


_C = Syntax(
    (_SLASHES, _BLOCK, r'\bu?8?[LUR]*R"([^()\s\\]{0,16})\((?s:.*?)(?:\)\1"|\Z)', _DOUBLE, _CHARACTER, _PREPROCESSOR),
    None,
    "static void end_of_the_answer(void) {",
    r"^[ \t]*+(?:#[ \t]*+include\b|using\b)[^\n]*+",
    r"#|//|/\*|using\b|return\b|if\b|for\b|while\b|(?:std::|const |static |unsigned |long |int |bool |auto |struct )",
)
_JAVASCRIPT = Syntax(
    (_SLASHES, _BLOCK, _TEMPLATE, _DOUBLE, _SINGLE, _REGEX),
    r"^[ \t]*+(?:export[ \t]++(?:default[ \t]++)?)?(?:(?:declare|async|abstract)[ \t]++)*+"
    r"(?:function\b[ \t]*+\*?|(?:class|const|let|var|interface|type|enum)\b)[ \t]*+(?P<name>[\w$]++)",
    "function endOfTheAnswer() {",
    r"^[ \t]*+(?:import\b[^\n]*+|(?:const|let|var)\b[^=\n]*+=[ \t]*+require\([^\n]*+)",
    r"//|/\*|import\b|export\b|const |let |var |function\b|async |return\b|if\b|for\b|while\b|class |console\.",
    is_script=True,
)

SYNTAXES: dict[str, Syntax] = {
    "c": _C,
    "cpp": _C,
    "java": Syntax(
        (_SLASHES, _BLOCK, r'"""(?s:.*?)(?:"""|\Z)', _DOUBLE, _CHARACTER),
        None,
        "static {",
        r"^[ \t]*+import\b[^\n]*+",
        r"//|/\*|@|(?:import|public|private|static|class|return|if|for|while)\b|(?:int|long|boolean|final|String) ",
        has_methods=True,
    ),
    "javascript": _JAVASCRIPT,
    "typescript": _JAVASCRIPT,
    "go": Syntax(
        (_SLASHES, _BLOCK, r"`[^`]*+`?", _DOUBLE, _CHARACTER),
        r"^(?:func[ \t]*+(?:\([^()\n]*+\)[ \t]*+)?|type[ \t]++|var[ \t]++|const[ \t]++)(?P<name>\w++)",
        "func endOfTheAnswer() {",
        r"^[ \t]*+import\b(?:[ \t]*+\((?s:.*?)\)|[^\n]*+)",
        r"//|/\*|package\b|import\b|func\b|type\b|var\b|return\b|if\b|for\b|switch\b|[\w, ]++:=",
    ),
    "rust": Syntax(
        (_SLASHES, r"/\*(?s:.*?)(?:\*/|\Z)", r'\bb?r(#{0,4})"(?s:.*?)(?:"\1|\Z)', _DOUBLE_LONG, _CHARACTER),
        r"^[ \t]*+(?:pub(?:\([^()\n]*+\))?[ \t]++)?(?:(?:const|async|unsafe)[ \t]++)*+"
        r"(?:fn|struct|enum|trait|type|mod|union|static|const)[ \t]++(?P<name>\w++)",
        "#[allow(dead_code)] fn end_of_the_answer() {",
        r"^[ \t]*+(?:use|extern crate)\b[^;]*+;",
        r"//|/\*|#!?\[|use\b|fn\b|pub\b|let\b|return\b|if\b|for\b|while\b|match\b|struct\b|impl\b",
    ),
    "php": Syntax(
        (
            _SLASHES,
            _BLOCK,
            r"#(?!\[)[^\n]*+",
            r"<<<[ \t]*+['\"]?(\w++)['\"]?\n(?s:.*?)(?:\n[ \t]*+\1\b|\Z)",
            _DOUBLE_LONG,
            _SINGLE_LONG,
        ),
        r"^[ \t]*+(?:(?:abstract|final)[ \t]++)*+"
        r"(?:function\b[ \t]*+&?|(?:class|interface|const)\b)[ \t]*+(?P<name>\w++)",
        "function end_of_the_answer() {",
        r"^[ \t]*+(?:use|require|include|require_once|include_once)\b[^\n]*+",
        r"<\?php|//|/\*|#|\$|function\b|return\b|if\b|foreach\b|for\b|while\b|echo\b|use\b|class\b",
        is_script=True,
    ),
    "perl": Syntax(
        (_HASH, r"^=[a-z](?s:.*?)(?:^=cut\b[^\n]*+|\Z)", _DOUBLE_LONG, r"(?<![\w&$])'(?:[^'\\]|\\.)*+'?"),
        r"^[ \t]*+sub[ \t]++(?P<name>\w++)",
        "sub end_of_the_answer {",
        r"^[ \t]*+use\b[^\n]*+",
        r"#|use\b|sub\b|my\b|our\b|return\b|if\b|for\b|foreach\b|while\b|print\b|[$@%]",
        is_script=True,
        redefines=True,
    ),
    "r": Syntax(
        (r"#[^\n]*+", _DOUBLE_LONG, _SINGLE_LONG, _TEMPLATE),
        r"^[ \t]*+(?P<name>[A-Za-z.][\w.]*+)[ \t]*+(?:<-|=(?!=))[ \t]*+(?:function\b|\\\()",
        "end_of_the_answer <- function() {",
        r"^[ \t]*+(?:library|require|suppressPackageStartupMessages)\([^\n]*+",
        r"#|library\(|if\b|for\b|while\b|return\b|[\w.]++[ \t]*+(?:<-|\()",
        is_script=True,
        redefines=True,
    ),
    "bash": Syntax(
        (_HASH, _SINGLE_LONG, r'"(?:[^"\\]|\\(?s:.))*+"?'),
        r"^[ \t]*+(?:function[ \t]++(?P<word>[\w-]++)|(?P<name>[\w-]++)[ \t]*+\([ \t]*+\))",
        "end_of_the_answer() {\n:",
        r"^[ \t]*+(?:source|\.|shopt|set)\b[^\n]*+",
        r"#|local\b|if\b|for\b|while\b|case\b|echo\b|printf\b|read\b|return\b|declare\b|\[\[|\(\(|\$|\w++=|function\b",
        is_script=True,
        redefines=True,
    ),
    "ruby": Syntax(
        (r"^=begin\b(?s:.*?)(?:^=end\b|\Z)", _HASH, _DOUBLE_LONG, _SINGLE_LONG),
        r"^[ \t]*+(?:def[ \t]++(?:self\.)?|class[ \t]++|module[ \t]++)(?P<name>\w++[?!]?)",
        "def end_of_the_answer",
        r"^[ \t]*+(?:require|require_relative|include)\b[^\n]*+",
        r"#|def\b|class\b|require\b|return\b|if\b|unless\b|while\b|puts\b|[\w@$]++(?:[ \t]*+=|\.\w)|\[",
        closes="end",
        is_script=True,
        redefines=True,
    ),
    "lua": Syntax(
        (r"--\[(=*)\[(?s:.*?)(?:\]\1\]|\Z)", r"--[^\n]*+", r"\[(=*)\[(?s:.*?)(?:\]\2\]|\Z)", _DOUBLE, _SINGLE),
        r"^[ \t]*+(?:local[ \t]++)?"
        r"(?:function[ \t]++(?P<name>[\w.:]++)|(?P<word>\w++)[ \t]*+=[ \t]*+function\b)",
        "function end_of_the_answer()",
        r"^[ \t]*+(?:local[ \t]++)?\w++[ \t]*+=[ \t]*+require\b[^\n]*+",
        r"--|local\b|function\b|return\b|if\b|for\b|while\b|repeat\b|print\(",
        closes="end",
        is_script=True,
        redefines=True,
    ),
}
"""By the names of `sandrl.problems.languages`."""


def masked(code: str, syntax: Syntax) -> str:
    """Code with blanks in place of comments and strings; every other character stays where it was."""
    return syntax.hidden.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), code)
