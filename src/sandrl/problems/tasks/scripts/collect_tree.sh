# Collects the final tree of a repository: what git tracks and what is new, without what it ignores; all where there is no git.
# Variables: directory, kept (paths that stay as they are in the image, one a line).
cd "$directory" || exit 1
mkdir -p /logs/artifacts
excluded=$(mktemp)
[ -z "$kept" ] || printf '%s\n' "$kept" >"$excluded"
if git -c safe.directory='*' rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory='*' ls-files -z --cached --others --exclude-standard
else
    find . -mindepth 1 -maxdepth 1 -printf '%P\0'
fi | xargs -0 -r sh -c 'for path; do
    if [ -L "$path" ] || [ ! -d "$path" ]; then [ ! -e "$path" ] && [ ! -L "$path" ] || printf "%s\0" "$path"
    else find "$path" -name .git -prune -o \( -type f -o -type l \) -print0; fi
done' sh | tar --exclude-from="$excluded" --null --no-recursion -T - -czf /logs/artifacts/tree.tar.gz
