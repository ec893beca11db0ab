"""The shell programs that a machine runs: each needs a POSIX shell, and little else.

A program reads from its standard input what its arguments must not show: the first lines are words of a shell, and the
rest is the input of the command.

An agent may write to a directory of the image's PATH, or of the system's. So the programs find others in directories
that root alone can write, as far as the image has its programs there. Commands of a task have the PATH of the image,
and what starts them is named by its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

KEPT_BYTES = 64 << 20
"""How much output of one command is kept in a sandbox while it runs; what exceeds it is cut in the middle."""

ENDING_SECONDS = 20.0
"""How long a command may take to end after its time limit, and its output to be read."""

SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

RUN = rf"""IFS= read -r sandrl_own && IFS= read -r sandrl_its && eval "$sandrl_own" || exit 126
sandrl_d=$(umask 077 && mktemp -d /tmp/.run-XXXXXX) &&
    exec 6>&2 2>/dev/null 3>>"$sandrl_d/out" 4>>"$sandrl_d/err" 5<&0 </dev/null ||
    {{ eval "$sandrl_its" && exec "$@"; exit 126; }}
set -f
IFS= read -r sandrl_stat </proc/$$/stat; set -- ${{sandrl_stat##*) }}; sandrl_session=$4
ignores_hangup() {{
    while read -r sandrl_name sandrl_value; do
        [ "$sandrl_name" != SigIgn: ] || case $sandrl_value in *[13579bdf]) return 0;; *) return 1;; esac
    done <"/proc/$1/status"
    return 1
}}
ignores_hangup $$ && sandrl_spares= || sandrl_spares=yes
each() {{
    for sandrl_pid in $(set +f; cd /proc && echo [0-9]*); do
        IFS= read -r sandrl_stat <"/proc/$sandrl_pid/stat" || continue
        set -- "$1" "$2" ${{sandrl_stat##*) }}
        [ "$6" = "$sandrl_session" ] && [ "$sandrl_pid" != $$ ] && [ "$sandrl_pid" != "$2" ] || continue
        [ "$sandrl_spares" ] && ignores_hangup "$sandrl_pid" || kill "-$1" "$sandrl_pid"
    done
}}
cut() {{
    sandrl_size=$(wc -c <"$1") && [ "$sandrl_size" -gt {KEPT_BYTES} ] || return
    each STOP "$sandrl_me"  # what it writes meanwhile would be lost
    [ -e "$1.head" ] || head -c "$sandrl_first" "$1" >"$1.head"
    tail -c "$sandrl_last" "$1" >"$1.tail"; sandrl_size=$(wc -c <"$1"); : >"$1"
    echo $((sandrl_size + $(cat "$1.lost" || echo 0))) >"$1.new"
    mv "$1.new" "$1.lost"; each CONT "$sandrl_me"
}}
watch() {{
    sandrl_over= sandrl_nap=
    trap 'sandrl_over=yes; kill -9 $sandrl_nap' TERM
    IFS= read -r sandrl_stat </proc/self/stat; sandrl_me=${{sandrl_stat%% *}} sandrl_passed=0 sandrl_pause=1
    while [ $sandrl_passed -lt $sandrl_seconds ]; do
        [ $((sandrl_passed + sandrl_pause)) -le $sandrl_seconds ] || sandrl_pause=$((sandrl_seconds - sandrl_passed))
        sleep $sandrl_pause & sandrl_nap=$!
        [ "$sandrl_over" ] && kill -9 $sandrl_nap
        wait $sandrl_nap; sandrl_passed=$((sandrl_passed + sandrl_pause)); cut "$sandrl_d/out"; cut "$sandrl_d/err"
        [ ! "$sandrl_over" ] || return
        [ $sandrl_pause -ge 8 ] || sandrl_pause=$((sandrl_pause * 2))
    done
    : >"$sandrl_d/late"
    each TERM "$sandrl_me"; sleep 1
    for sandrl_signal in STOP KILL KILL; do each $sandrl_signal "$sandrl_me"; done
}}
show() {{
    sandrl_size=$(wc -c <"$1") sandrl_total=$((sandrl_size))
    if [ -e "$1.head" ]; then
        sandrl_total=$((sandrl_size + $(cat "$1.lost"))); cat "$1.head"; cat "$1.tail" "$1" | tail -c "$sandrl_last"
    elif [ $sandrl_total -gt $((sandrl_first + sandrl_last)) ]; then
        head -c "$sandrl_first" "$1"; tail -c "$sandrl_last" "$1"
    else head -c $sandrl_total "$1"; fi
}}
watch 3>&- 4>&- 5<&- 6>&- & sandrl_watching=$!
( eval "$sandrl_its" && exec "$@"; exit 126 ) <&5 >&3 2>&4 3>&- 4>&- 5<&- 6>&-
sandrl_code=$?
exec 3>&- 4>&- 5<&-
[ -e "$sandrl_d/late" ] && sandrl_late=1 || {{ sandrl_late=0; kill $sandrl_watching; }}
wait $sandrl_watching
show "$sandrl_d/out"; sandrl_out=$sandrl_total
show "$sandrl_d/err" >&6
printf '%s %d %d %d %d' "$sandrl_mark" $sandrl_code $sandrl_late $sandrl_out $sandrl_total
rm -rf "$sandrl_d"
"""
"""Runs a command to its end, or ends it after `sandrl_seconds`, and writes its output.

The output is cut to its `sandrl_first` and `sandrl_last` bytes. No other variable of the shell is used, because the
command has those of the image, of any name.

It ends the session of the command, besides programs that ignore a hang-up as those of `nohup` do. The command writes
to files, so what it leaves behind is not ended by its next line. At the end of standard output stands `sandrl_mark`,
with the exit code, whether it was late, and how much it has written to each output.
"""

PROBE = r"""say() { [ -f "$1" ] && while IFS= read -r line || [ "$line" ]; do printf '%s\n' "$line"; done <"$1"; }
part() { printf '%s\n' "$mark"; }
where() {
    IFS=:
    for each in $PATH; do
        [ -f "$each/$1" ] && [ -x "$each/$1" ] || continue
        printf '%s\n' "$each/$1"; return
    done
    command -v "$1"
}
for ls in /bin/ls /usr/bin/ls; do [ ! -x "$ls" ] || break; done
is_roots() {
    each=$1
    while [ "$each" ]; do each=${each%/*}; set -- "$@" "${each:-/}"; done
    found=$("$ls" -ldn -- "$@" 2>/dev/null) || return
    printf '%s\n' "$found" | (while IFS=' ' read -r mode links owner rest; do
        case $mode,$owner in ?????-??-*,0) ;; *) exit 1;; esac
    done)
}
set -f; IFS=: safe= others=
for directory in $PATH; do
    case $directory in /*) ;; *) continue;; esac
    directory=$(cd -P -- "$directory" 2>/dev/null && pwd -P) || continue
    case :$safe:$others: in *":$directory:"*) continue;; esac
    if is_roots "$directory"; then safe=$safe${safe:+:}$directory; else others=$others${others:+:}$directory; fi
done
all=$safe${safe:+${others:+:}}$others
PATH=$safe
[ "$safe" ] && command -v mkdir >/dev/null 2>&1 || PATH=${all:-$sandrl_paths}
unset IFS
IFS= read -r mark
id -u; part
say /proc/self/uid_map; part
say /proc/self/gid_map; part
say /etc/passwd; part
say /etc/group; part
for each in sh bash tar su; do found=$(where $each) && printf '%s=%s\n' $each "$found"; done
[ ! -x /bin/sh ] || echo sh=/bin/sh
found=$(where busybox) && for each in tar su; do
    "$found" $each --help >/dev/null 2>&1 && printf 'busybox %s=%s\n' $each "$found"
done
found=$(where setpriv) && "$found" --reuid=0 --regid=0 --clear-groups true 2>/dev/null && echo "setpriv=$found"
found=$(where chroot) && "$found" --userspec=0:0 --groups=0 / true 2>/dev/null && echo "chroot=$found"
part
printf '%s\n' "$PATH"; part"""
"""Finds out whose the programs of a machine are, which users it has, which programs, and the PATH of its own.

A directory that others than root can write, or one above it, is in that PATH only if the image has its programs
nowhere else, and last.
"""

TERMINAL = r"""umask 077; d=$(mktemp -d /tmp/.terminal-XXXXXX) && cat >"$d/words" && printf %s "$d" """
"""Makes the directory of a terminal with the words of its shell, and prints its path."""

SHELL = r"""stty -echo 2>/dev/null
sandrl_its=$(cat "$0/words"); rm -f "$0/words"; eval "$sandrl_its" || exit
printf '%s %d\n' "$sandrl_mark" $$
unset sandrl_mark sandrl_its sandrl_line sandrl_paths ENV
exec "$@" """
"""Becomes the shell of a terminal, after it has written `sandrl_mark` and its process id."""

INTERRUPT = r"""IFS= read -r its && eval "$its" || exit 126
IFS= read -r line <"/proc/$pid/stat" || exit
set -f; set -- ${line##*) }
[ "$6" -gt 1 ] && [ "$6" != "$3" ] || exit
kill -TERM "-$6"; sleep 0.5; kill -KILL "-$6" """
"""Ends the job in the foreground of the terminal whose shell is `pid`."""

PUT = r"""IFS= read -r its && eval "$its" || exit 126
[ "$anew" ] && { rm -rf -- "$place" || exit; }
[ -d "$place" ] && [ ! "$anew" ] || { rm -f -- "$place"; mkdir -p -- "$place"; } || exit
cd -- "$place" || exit
for each; do { [ ! -L "$each" ] && { [ ! -e "$each" ] || [ -d "$each" ]; }; } || rm -f -- "$each" || exit; done
$tar -xpf -"""

READ = r"""IFS= read -r its && eval "$its" || exit 126
[ -f "$path" ] && [ ! -L "$path" ] || exit
exec head -c "$most" "$path" """

GET = r"""IFS= read -r its && eval "$its" || exit 126
[ -e "$path" ] || [ -L "$path" ] || exit
case $path in */*) cd -- "${path%/*}/" || exit;; esac
$tar -c "$@" -f - -- "./${path##*/}" | head -c "$most" """

PROCESSES = r"""for each in /proc/[0-9]*; do
    IFS= read -r line <"$each/stat" && [ "${each#/proc/}" != $$ ] && printf '%s\n' "$line"
done 2>/dev/null"""
"""Lists the processes of a machine, as the kernel describes them."""

WROTE_TOO_MUCH = 141
"""The exit code of a command whose output was not read any more."""


def program(text: str, path: str = "") -> str:
    """A program of the machine's own, by the PATH of the machine's own; without one, the system's directories first."""
    searched = quoted(path) if path else f"{SYSTEM}:$sandrl_paths"
    return f"sandrl_line='\n'\nsandrl_paths=$PATH; PATH={searched}; export PATH\n{text}"


def quoted(text: str) -> str:
    """A word of a shell in one line, where `sandrl_line` is a newline."""
    return "'" + text.replace("'", "'\\''").replace("\n", "'\"$sandrl_line\"'") + "'"


def assigned(**values: object) -> str:
    return "; ".join(f"{name}={quoted(str(value))}" for name, value in values.items())


def exported(variables: Mapping[str, str]) -> str:
    return "".join(f"export {name}={quoted(value)}; " for name, value in variables.items())


def words(arguments: Iterable[str]) -> str:
    return "set -- " + " ".join(map(quoted, arguments))


def command(argv: Iterable[str], variables: Mapping[str, str], directory: str | None, *, is_own: bool = False) -> str:
    """Words that change to a directory, set variables, PATH too unless it is the machine's, and set the arguments."""
    path = "" if is_own else "PATH=$sandrl_paths; "
    change = f"cd -- {quoted(directory)} || exit 126; " if directory else ""
    return path + change + exported(variables) + words(argv)


def lines(*texts: str) -> bytes:
    """The first lines of a standard input."""
    return "".join(f"{text}\n" for text in texts).encode("utf-8", "surrogateescape")
