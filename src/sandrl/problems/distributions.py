"""Modules outside the standard library that code imports, and the distributions that contain them.

Code names modules; an index has distributions. Most have one name for both. The table has the others that sets of
problems use.
"""

from __future__ import annotations

import ast
import sys

from sandrl.syntax import parse

_DISTRIBUTIONS = {
    "Crypto": "pycryptodome",
    "Levenshtein": "python-Levenshtein",
    "OpenSSL": "pyOpenSSL",
    "PIL": "Pillow",
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "fitz": "PyMuPDF",
    "flask_login": "Flask-Login",
    "flask_mail": "Flask-Mail",
    "flask_restful": "Flask-RESTful",
    "flask_wtf": "Flask-WTF",
    "github": "PyGithub",
    "jwt": "PyJWT",
    "mpl_toolkits": "matplotlib",
    "pkg_resources": "setuptools",
    "serial": "pyserial",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
    "zmq": "pyzmq",
}


def distribution_of(module: str) -> str:
    """The distribution that has a module, by the first word of the module's name."""
    first = module.partition(".")[0]
    return _DISTRIBUTIONS.get(first, first)


def third_party_imports(*codes: str) -> tuple[str, ...]:
    """The modules outside the standard library that code imports, sorted; of code that is no Python, none."""
    names: set[str] = set()
    for code in codes:
        if "import" not in code:
            continue
        try:
            nodes = list(ast.walk(parse(code)))
        except SyntaxError:
            continue
        for node in nodes:
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                names.add(node.module.partition(".")[0])
    return tuple(sorted(names - sys.stdlib_module_names - _OWN))


# The module of the answer, and a library of tests for which there is a stand-in.
_OWN = frozenset({"solution", "pytest"})
