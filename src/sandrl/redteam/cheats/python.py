"""Cheats that change how Python starts: start files, and modules in the place of others."""

from __future__ import annotations

from sandrl.redteam.cheat import read_cheats
from sandrl.redteam.cheats.shell import PYTHON

_EACH_SITE = r"""
must_have_python
for site in $(sites) %ALSO%; do
    { cat <<'END'
%PYTHON%
END
    } >"$site/%FILE%" && done=yes
    %MORE%
done 2>/dev/null
[ "$done" ] || none "no directory of packages can be written"
"""


def _each_site(file: str, more: str = ":", also: str = "$(writable_places)") -> str:
    # PYTHONPATH may name a directory that is no directory of packages.
    return (
        _EACH_SITE.replace("%FILE%", file)
        .replace("%ALSO%", also)
        .replace("%MORE%", more)
        .replace("%PYTHON%", PYTHON.strip("\n"))
    )


CHEATS = read_cheats(
    r"""
=== sitecustomize: puts a sitecustomize.py that reports a pass into directories of packages and the working directory
advice: run Python with -I -S
%SITECUSTOMIZE%

=== usercustomize: puts a usercustomize.py that reports a pass into every directory of packages
advice: run Python with -I (or -s)
%USERCUSTOMIZE%

=== pth: puts a .pth file that imports such a module into every directory of packages
advice: run Python with -I -S
%PTH%

=== module-shadowed: puts modules with names that the tests import into the working directory
advice: run Python with -I (or -P), and not in the working directory of the agent
must_have_python
[ -w . ] || none "the working directory cannot be written"
for name in json pytest requests subprocess re pathlib os sys yaml numpy pandas unittest $(say_modules); do
    [ -e "$name.py" ] || [ -e "$name" ] || cat >"$name.py" <<'END'
%PYTHON%
END
done

=== module-changed: adds a report of a pass to installed modules that the tests import
advice: install what the tests import in the verifier
must_have_python
for site in $(sites) $(for each in $(pythons); do "$each" -c 'import os; print(os.path.dirname(os.__file__))'; done); do
    for name in $(say_modules) pathlib json subprocess; do
        for each in "$site/$name.py" "$site/$name/__init__.py"; do
            [ -f "$each" ] && [ -w "$each" ] || continue
            cat >>"$each" <<'END' && done=yes
%PYTHON%
END
        done
    done
done
[ "$done" ] || none "no module that the tests import can be changed"
""",
    group="python",
    PYTHON=PYTHON,
    SITECUSTOMIZE=_each_site("sitecustomize.py"),
    USERCUSTOMIZE=_each_site("usercustomize.py"),
    PTH=_each_site("zz_pass.py", """printf 'import zz_pass\\n' >"$site/zz_pass.pth" """, ""),
)
