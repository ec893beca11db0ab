# Puts the final tree of an agent into a fresh copy of its repository, and runs the tests there.
# Variables: directory, kept (paths that stay as they are in the image, one a line), activate (a command that selects the
# environment of the repository), install, command and its files (an array), canary (the directory of an added test that
# must fail; empty for none). Files in /tests, of paths that end with a null byte: protected; of lines: owned (what the right
# patch changes too).
tests=$(cd "$(dirname "$0")" && pwd)
answer=/logs/artifacts/tree.tar.gz
cd "$directory" || exit 1
export HOME="${HOME:-/root}" PIP_NO_INPUT=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_RETRIES=1 PIP_ROOT_USER_ACTION=ignore
git config --global --add safe.directory '*' 2>/dev/null
eval "$activate"
has_git() { git rev-parse -q --verify HEAD >/dev/null 2>&1; }
has_git && is_tracked=1 || is_tracked=
excluded=$(mktemp)
printf '%s\n' .git __pycache__ '*.pyc' '*.egg-info' '*.dist-info' '*.pth' >"$excluded"
[ -z "$kept" ] || printf '%s\n' "$kept" >>"$excluded"

# Files that say how tests are run, wherever they are.
settings() {
    find . -name .git -prune -o -name node_modules -prune -o -name .venv -prune -o \( -type f -o -type l \) \( \
        -name conftest.py -o -name pytest.ini -o -name .pytest.ini -o -name pytest.toml -o -name .pytest.toml -o -name tox.ini \
        -o -name setup.cfg -o -name pyproject.toml -o -name noxfile.py -o -name sitecustomize.py -o -name usercustomize.py -o -path ./pytest.py -o -path './_pytest/*' \
        -o -path './pytest/*' -o -path './pluggy/*' -o -name package.json -o -name 'jest.config.*' -o -name 'vitest.config.*' \
        -o -name 'karma.conf.*' -o -name '.mocharc*' -o -name '*_test.go' -o -name 'phpunit.xml*' -o -name .rspec \
        \) -printf '%P\0' | not_owned
}
not_owned() { if [ -s "$tests/owned" ]; then grep -zvxFf "$tests/owned"; else cat; fi; }
protected() {
    xargs -0 -r sh -c 'for path; do [ ! -e "$path" ] && [ ! -L "$path" ] || find "$path" ! -type d -print0; done' sh \
        <"$tests/protected" | not_owned
}

word=$(od -An -N6 -tx1 /dev/urandom | tr -d ' \n')
write_canary() { printf 'def test_%s():\n    assert False\n' "$word" >"$canary/test_$word.py"; }
if [ -n "$canary" ] && [ -d "$canary" ]; then
    write_canary
    (files=("$canary/test_$word.py") && eval "$command") 2>&1 |
        grep -qE "^(FAILED|ERROR) .*test_$word\.py::test_$word" || canary=
    rm -rf "$canary/test_$word.py" "$canary/__pycache__/test_$word".*
else
    canary=
fi

if [ -e "$answer" ]; then
    originals=$(mktemp)
    { protected; settings; } | sort -zu | tar --null --no-recursion -T - -cf "$originals" || exit 1
    if [ "$is_tracked" ]; then
        git ls-files -z
    else
        find . -name .git -prune -o ! -type d -printf '%P\0'
    fi | { [ -z "$kept" ] && cat || grep -zvE "^($(printf '%s' "$kept" | tr '\n' '|'))(/|$)"; } | xargs -0 -r rm -f --
    # First elsewhere, where a link of the answer leads to nothing of the repository, such as .git, for what is below it.
    tree=$(mktemp -d) packed=$(mktemp)
    tar -xzf "$answer" -C "$tree" --no-same-owner --exclude-from="$excluded" || exit 1
    (cd "$tree" && find . \( -type f -o -type l \) -printf '%P\0' | tar --null --no-recursion -T - -cf "$packed") || exit 1
    tar -xf "$packed" || exit 1
    rm -rf "$tree" "$packed"
    { protected; settings; } | xargs -0 -r rm -rf --
    tar -xf "$originals" || exit 1
fi
if [ -s "$tests/test.patch" ]; then
    git apply -v --whitespace=nowarn "$tests/test.patch" || patch -p1 --batch --forward -i "$tests/test.patch" || exit 1
fi
[ -z "$install" ] || eval "$install"
if [ -n "$canary" ]; then
    write_canary
    export SANDRL_CANARY="$canary/test_$word.py"
    echo ">>>>> Canary: test_$word.py::test_$word"
fi
if [ -e "$tests/eval.sh" ]; then
    exec bash "$tests/eval.sh" 2>&1
fi
echo '>>>>> Start Test Output'
(files+=(${canary:+"$canary/test_$word.py"}) && eval "$command") 2>&1
code=$?
echo
echo '>>>>> End Test Output'
echo ">>>>> Test Exit Code: $code"
