#!/bin/sh
# Installs sandrl for the Python of a CI job, unless the job has sandrl already.
# SANDRL_SOURCE says from where, as pip reads it: a version (sandrl==0.1.0), a wheel in this folder, or a repository
# (git+https://HOST/OWNER/sandrl). Without it, from where the sandrl came that wrote this folder.
set -eu
cd "$(dirname "$0")/.."

if command -v sandrl >/dev/null; then
    exit 0
fi
written_by=@SANDRL_SOURCE@
source=${SANDRL_SOURCE:-$written_by}
python3 -m pip install "$source" || {
    echo "ci/install.sh: pip cannot install sandrl from: $source" >&2
    echo "  set SANDRL_SOURCE to what this machine can read; in GitHub, as a variable of the repository" >&2
    exit 1
}
