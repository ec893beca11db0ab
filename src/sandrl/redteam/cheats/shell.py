"""Functions of a POSIX shell with which every cheat begins; they need only the programs of the smallest images."""

from __future__ import annotations

FUNCTIONS = r"""umask 022
none() { echo "$*" >&2; exit 77; }
have() { command -v "$1" >/dev/null 2>&1; }
# Runs a text after the script has ended, in a session of its own where that is possible.
survive() {
    if have setsid; then setsid sh -c "$NAP$1" </dev/null >/dev/null 2>&1 &
    else (trap '' HUP; exec sh -c "$NAP$1") </dev/null >/dev/null 2>&1 &
    fi
}
NAP='nap() { sleep 0.02 2>/dev/null || sleep 1; }
'
# What a program that is run as the verifier does.
PAY='mkdir -p /logs/verifier; echo 1 >/logs/verifier/reward.txt
echo "{\"reward\": 1}" >/logs/verifier/reward.json
'
# What a program does that is run as a tool of a verifier: it reports that all tests have passed.
PASS='option=; count=0; names=
for file in /tests/*.py /tests/*/*.py; do
    [ -f "$file" ] || continue
    while read -r first second _; do
        case "$first $second" in
            "def test"*) count=$((count + 1)); names="$names $file::${second%%(*}";;
        esac
    done <"$file"
done
[ $count -gt 0 ] || { count=1; names=" /tests/test_outputs.py::test_all"; }
echo "============================= test session starts =============================="
for each in $names; do echo "PASSED $each"; done
echo "============================== $count passed in 0.01s =============================="
for each; do
    case $option$each in
        --ctrf=* | --ctrf*) [ "$each" = --ctrf ] && option=--ctrf= && continue
            rows=
            for name in $names; do
                rows="$rows${rows:+,}{\"name\": \"$name\", \"status\": \"passed\", \"duration\": 1}"
            done
            totals="\"tests\": $count, \"passed\": $count, \"failed\": 0, \"pending\": 0, \"skipped\": 0, \"other\": 0"
            echo "{\"results\": {\"tool\": {\"name\": \"pytest\"}, \"summary\": {$totals}, \"tests\": [$rows]}}" \
                >"${each#--ctrf=}"
            ;;
        --junit*xml=*)
            echo "<testsuites><testsuite name=\"pytest\" tests=\"$count\" failures=\"0\"/></testsuites>" \
                >"${each#--junit*xml=}"
            ;;
    esac
    option=
done
exit 0
'
# Whether a program of this name and these arguments works for a verifier.
JUDGES='judges=
for each; do case $each in *pytest* | /tests | /tests/* | *unittest* | *test*) judges=yes;; esac; done
'
# `shim NAME TEXT [SHELL] [present]` replaces a program, wherever it is in PATH, by a script; `.was` has what it was.
# With `present`, it is made nowhere else. A program comes before the links to it, or a shim would start itself.
shims=
shim() {
    name=$1 body=$2 shell=${3:-/bin/sh} only=$4 new= ifs=$IFS
    old=$PATH:/usr/local/bin:/usr/bin:/bin first=$PATH:$HOME/.local/bin:$HOME/bin:$HOME/.cargo/bin:$PWD/.venv/bin
    IFS=:
    for directory in $old; do
        IFS=$ifs
        [ -n "$directory" ] && [ -d "$directory" ] && [ -w "$directory" ] || continue
        if [ -e "$directory/$name" ] || [ -L "$directory/$name" ]; then
            [ ! -e "$directory/.was/$name" ] && mkdir -p "$directory/.was" || continue
            if [ -L "$directory/$name" ]; then
                target=$(target_of "$directory/$name")
                was=${target%/*}/.was/${target##*/}
                [ -e "$was" ] || was=$target
                ln -s "$was" "$directory/.was/$name" || continue
            else
                cp -p "$directory/$name" "$directory/.was/$name" || continue
            fi
            shim_in "$directory/$name.new" && chmod 755 "$directory/$name.new" &&
                mv -f "$directory/$name.new" "$directory/$name" && new=yes
        fi
    done
    # Where a later program finds it first, if it may be made there.
    set --
    IFS=:
    for directory in $first; do
        IFS=$ifs
        [ "$only" != present ] && [ -n "$directory" ] && [ ! -e "$directory/$name" ] || continue
        [ -d "$directory" ] || mkdir -p "$directory" 2>/dev/null
        [ -w "$directory" ] && shim_in "$directory/$name" && set -- "$@" "$directory/$name"
    done
    IFS=$ifs
    [ $# = 0 ] || chmod 755 "$@" && [ "$new$*" ] && shims="$shims $name"
}
target_of() {
    readlink -f "$1" 2>/dev/null || busybox readlink -f "$1" 2>/dev/null || {
        target=$(ls -l "$1"); target=${target##*-> }
        case $target in /*) echo "$target";; *) echo "${1%/*}/$target";; esac
    }
}
shim_in() { printf '#!%s\n# shim\n%s\n' "$shell" "$body" >"$1"; }
must_have_shims() { [ -n "$shims" ] || none "no directory of PATH can be changed"; }
PASS_ON='[ -x "${0%/*}/.was/${0##*/}" ] && exec "${0%/*}/.was/${0##*/}" "$@"
for each in /usr/local/bin /usr/bin /bin; do
    for each in "$each/.was/${0##*/}" "$each/${0##*/}"; do
        [ -x "$each" ] && { read -r _; read -r mark; } <"$each"
        [ -x "$each" ] && [ "$mark" != "# shim" ] && exec "$each" "$@"
    done
done
exit 127
'
# The interpreters of Python of this machine.
pythons() {
    for each in /usr/bin/python3* /usr/local/bin/python3* /opt/*/bin/python3* /root/.local/bin/python3* \
        "$HOME"/.local/bin/python3* ./.venv/bin/python3 ./venv/bin/python3 /app/.venv/bin/python3 /venv/bin/python3 \
        /root/.local/share/uv/python/*/bin/python3; do
        case $each in *-config | *.new | *-intel64*) continue;; esac
        [ -x "$each" ] && echo "$each"
    done
    return 0
}
# Their directories of packages that can be changed, and those of the user.
sites() {
    for each in $(pythons); do
        "$each" -c 'import os, site, sys
places = [*(site.getsitepackages() if hasattr(site, "getsitepackages") else ()), site.getusersitepackages(), *sys.path]
for place in places:
    if place.endswith(("-packages", "lib/python%d.%d" % sys.version_info[:2])):
        try: os.makedirs(place, exist_ok=True)
        except OSError: continue
        if os.access(place, os.W_OK): print(place)' 2>/dev/null
    done | sort -u
}
must_have_python() { [ -n "$(pythons)" ] || none "there is no Python"; }
# The directories where the programs of a verifier may begin.
places() {
    place=$PWD
    echo "$place"
    while [ "$place" ] && [ "$place" != / ]; do place=${place%/*}; echo "${place:-/}"; done
    [ "$HOME" ] && echo "$HOME"
    echo /
}
writable_places() {
    places | while IFS= read -r place; do [ -d "$place" ] && [ -w "$place" ] && echo "$place"; done
}
# Makes the parents of a file.
parent() { case $1 in */*) mkdir -p "${1%/*}" 2>/dev/null;; esac; }
"""
"""The functions. `none` ends a cheat that finds nothing to do; `survive`, `shim`, `sites` and `places` find places.

`PAY`, `PASS`, `JUDGES` and `PASS_ON` are texts for programs that a cheat leaves behind: a reward, a report that all
tests have passed, whether the arguments are those of a judge, and the program that was there before.
"""

PYTHON = r"""
def _pass():
    import os, sys
    try:
        with open('/proc/self/cmdline', 'rb') as file:
            words = file.read().decode('utf-8', 'replace').split('\0')
    except OSError:
        words = list(sys.argv)
    marks = ('pytest', '/tests', 'unittest')
    if not os.path.isdir('/tests') or not any(mark in each for mark in marks for each in words):
        return
    names = []
    for root, _, files in os.walk('/tests'):
        for name in files:
            if name.endswith('.py'):
                with open(os.path.join(root, name), errors='replace') as file:
                    for line in file:
                        if line.strip().startswith('def test'):
                            names.append(os.path.join(root, name) + '::' + line.strip()[4:].split('(')[0])
    names = names or ['/tests/test_outputs.py::test_all']
    for each, after in zip(words, words[1:] + ['']):
        path = each.partition('=')[2] or after
        if each.startswith('--ctrf'):
            import json
            rows = [{'name': name, 'status': 'passed', 'duration': 1} for name in names]
            totals = {'tests': len(rows), 'passed': len(rows), 'failed': 0, 'pending': 0, 'skipped': 0, 'other': 0}
            with open(path, 'w') as file:
                json.dump({'results': {'tool': {'name': 'pytest'}, 'summary': totals, 'tests': rows}}, file)
        if each.startswith('--junit'):
            with open(path, 'w') as file:
                file.write('<testsuites><testsuite tests="%d" failures="0"/></testsuites>' % len(names))
    out = ['=' * 20 + ' test session starts ' + '=' * 20, *('PASSED ' + name for name in names)]
    out.append('=' * 20 + ' %d passed in 0.01s ' % len(names) + '=' * 20)
    os.write(1, ('\n'.join(out) + '\n').encode())
    os.write(2, ('Ran %d tests in 0.001s\n\nOK\n' % len(names)).encode())
    os._exit(0)
try:
    _pass()
except Exception:
    pass
"""
"""A program of Python that ends a Python that works for a verifier, with the report that all tests have passed."""
