#!/bin/sh
# The checks of CI, which also run on your machine: sh ci/check.sh
# The script ends with the exit code of the first command that fails.
set -eu
cd "$(dirname "$0")/.."

command -v sandrl >/dev/null || {
    echo "ci/check.sh: there is no command sandrl on the PATH; activate its environment, or run ci/install.sh" >&2
    exit 2
}

# The reward function returns what its test expects.
python3 test_rewards.py

# Every reference passes the checks of its problem.
sandrl problems validate --problems problems.jsonl

# No exploit earns a reward. These six groups take seconds; without -e, all exploits run, which takes minutes.
sandrl redteam --config sandrl.toml --num-problems 0 \
    -e empty -e exit -e forgery -e 'guessed output' -e object -e snooping

# At least 60% of the completions pass.
sandrl reward completions.jsonl --config sandrl.toml --fail-under 0.6
