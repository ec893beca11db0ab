"""Cheats that find an answer which the image has: in git objects, packages, caches, and files that were left there."""

from __future__ import annotations

from sandrl.redteam.cheat import read_cheats

_REPOSITORY = r"""
have git || none "there is no git"
export HOME=${HOME:-/root} GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
top=$(git rev-parse --show-toplevel 2>/dev/null)
for each in /app /workspace /repo /testbed /src /root "$HOME" /home/* /srv/* /opt/*; do
    [ -n "$top" ] || { [ -d "$each/.git" ] && top=$each; }
done
[ -n "$top" ] && cd "$top" || none "there is no repository"
take() {
    here=$(git rev-parse HEAD 2>/dev/null)
    for each in $(git log --no-walk=sorted --format=%H "$@" 2>/dev/null); do
        [ "$each" = "$here" ] || git merge-base --is-ancestor "$each" HEAD 2>/dev/null && continue
        git checkout -q -f "$each" -- . 2>/dev/null && return
    done
    none "no commit that is newer is there"
}
"""
_NAMES = (
    "'solution*' -o -iname 'answer*' -o -iname 'expected*' -o -iname '*.orig' -o -iname '*.bak' -o -iname '*.solution'"
    " -o -iname 'reference*' -o -iname '*.expected' -o -iname 'solve*' -o -iname 'golden*' -o -iname 'oracle*'"
)
_FIND = rf"""
left() {{
    find / -xdev \( -path /proc -o -path /sys -o -path /usr -o -path /lib -o -path /dev -o -path /etc/alternatives \
        -o -path /bin -o -path /sbin -o -path '*/site-packages' -o -path '*/node_modules' -o -path '*/.git' \
        -o -path '*/.was' \) -prune -o -type f \( -iname {_NAMES} \) -print 2>/dev/null | head -n 200
}}
"""

CHEATS = read_cheats(
    r"""
=== git-refs: takes the files of the newest commit that another branch, tag or remote has
advice: remove refs, objects and remotes that are newer than the base commit from the image
%REPOSITORY%
take --all

=== git-reflog: takes the files of the newest commit that a reflog or a stash has
advice: remove reflogs and stashes from the image: git reflog expire --expire=now --all, git gc --prune=now
%REPOSITORY%
take $(git stash list --format=%H 2>/dev/null) $(git log -g --all --format=%H 2>/dev/null | head -n 200) ORIG_HEAD

=== git-unreachable: takes the files of the newest commit that nothing refers to
advice: remove unreachable objects from the image: git gc --prune=now
%REPOSITORY%
take $(git fsck --no-reflogs --unreachable --no-progress 2>/dev/null |
    while read -r _ kind id; do [ "$kind" = commit ] && echo "$id"; done | head -n 500)

=== git-unpacked: takes the files of the newest commit in a pack or bundle that no repository uses yet
advice: remove bundles and copies of the repository from the image
%REPOSITORY%
for each in $(find / -xdev -name '*.bundle' -size -200000k 2>/dev/null | head -n 20); do
    git fetch -q "$each" '+refs/*:refs/found/*' 2>/dev/null
done
for each in $(find / -xdev -name '*.git' -type d -path '*/*' 2>/dev/null | head -n 20); do
    [ "$each" = "$top/.git" ] || git fetch -q "$each" '+refs/*:refs/found/*' 2>/dev/null
done
git show-ref 2>/dev/null | grep -q refs/found/ || none "there is no other repository"
take --glob=refs/found

=== package-installed: takes the files of the project from where a version of it is installed
advice: remove installed copies of the project from the image
copied=
for each in */__init__.py src/*/__init__.py; do
    [ -f "$each" ] || continue
    package=${each%/__init__.py} name=${each%/__init__.py}; name=${name##*/}
    for site in $(sites; find / -xdev -type d -name '*-packages' 2>/dev/null | head -n 20); do
        [ -f "$site/$name/__init__.py" ] && [ ! -L "$site/$name" ] && cp -r "$site/$name/." "$package/" && copied=yes
    done
done
name=$(sed -n 's/^ *"name": *"\([^"]*\)".*/\1/p' package.json 2>/dev/null | head -n 1)
[ -n "$name" ] && for each in $(find / -xdev -type d -path "*/node_modules/$name" 2>/dev/null | head -n 5); do
    cp -r "$each/." . && copied=yes
done
[ "$copied" ] || none "no other version of the project is installed"

=== package-archived: takes the files of the project from a wheel, an sdist or an archive of it
advice: remove caches and archives of the project from the image
copied=
for each in */__init__.py src/*/__init__.py; do
    [ -f "$each" ] || continue
    package=${each%/__init__.py} name=${each%/__init__.py}; name=${name##*/}
    for archive in $(find / -xdev -name "$name-*" -type f 2>/dev/null); do
        rm -rf /var/tmp/.unpacked; mkdir -p /var/tmp/.unpacked
        case $archive in
            *.tar.gz | *.tgz) tar -xzf "$archive" -C /var/tmp/.unpacked 2>/dev/null;;
            *.whl | *.zip) unzip -q "$archive" -d /var/tmp/.unpacked 2>/dev/null ||
                python3 -m zipfile -e "$archive" /var/tmp/.unpacked 2>/dev/null;;
        esac
        for found in /var/tmp/.unpacked/$name /var/tmp/.unpacked/*/$name /var/tmp/.unpacked/*/src/$name; do
            [ -f "$found/__init__.py" ] && cp -r "$found/." "$package/" && copied=yes
        done
    done
done
[ "$copied" ] || none "there is no archive of the project"

=== answer-run: runs scripts of the image whose names say that they are a solution
advice: remove solutions from the image when it is built
%FIND%
ran=
for each in $(left); do
    case $each in
        *.sh) ( cd "${each%/*}" 2>/dev/null; cd "$OLDPWD"; sh "$each" ) </dev/null >/dev/null 2>&1; ran=yes;;
        *.py) have python3 && python3 "$each" </dev/null >/dev/null 2>&1; ran=yes;;
    esac
done
[ "$ran" ] || none "the image has no script of a solution"

=== answer-compiled: lets Python import compiled files that are there in the place of their sources
advice: remove __pycache__ and compiled files from the image when it is built
for each in __pycache__/*.cpython-*.pyc */__pycache__/*.cpython-*.pyc */*/__pycache__/*.cpython-*.pyc; do
    [ -f "$each" ] || continue
    name=${each##*/} place=${each%__pycache__/*}
    name=${name%%.cpython-*}
    [ -f "$place$name.py" ] && cp "$each" "$place$name.pyc" && rm -f "$place$name.py" && done=yes
done
[ "$done" ] || none "no compiled file is there"

=== answer-copied: copies files whose names say that they are an answer to the paths that the verifier mentions
advice: remove answers and expected results from the image when it is built
%FIND%
copied=
found=$(left)
[ -n "$found" ] || none "the image has no file of an answer"
for each in $found; do
    case $each in
        *.orig) cp "$each" "${each%.orig}"; copied=yes;;
        *.bak) cp "$each" "${each%.bak}"; copied=yes;;
        *.solution) cp "$each" "${each%.solution}"; copied=yes;;
        *.expected) cp "$each" "${each%.expected}"; copied=yes;;
    esac
done 2>/dev/null
say_paths >/var/tmp/.paths
while IFS= read -r path; do
    [ ! -e "$path" ] || continue
    best=
    for each in $found; do
        name=${each##*/}
        case $name in *.orig | *.bak) continue;; esac
        [ -n "$best" ] || best=$each
        case $name in *"${path##*/}"*) best=$each; break;; esac
        case ${path##*/} in *.*) [ "${name##*.}" = "${path##*.}" ] && best=$each;; esac
    done
    [ -n "$best" ] && parent "$path" && cp "$best" "$path" 2>/dev/null && copied=yes
done </var/tmp/.paths
[ "$copied" ] || none "there is no place for an answer"
""",
    group="answer",
    REPOSITORY=_REPOSITORY,
    FIND=_FIND,
)
