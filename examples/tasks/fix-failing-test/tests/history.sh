#!/bin/bash
# The repair is committed, and the tests of the repository are still those of the first commit.
set -u

# The repository was in the agent's hands: nothing it configured may run here.
git() { command git -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"; }

[ "$(git rev-list --count HEAD)" -ge 2 ] || { echo "nothing was committed"; exit 1; }
[ -z "$(git diff --no-ext-diff --no-textconv --name-only HEAD -- src)" ] || { echo "there are changes that are not committed"; exit 1; }
first=$(git rev-list --max-parents=0 HEAD)
[ -z "$(git diff --no-ext-diff --no-textconv --name-only "$first" -- test)" ] || { echo "the tests were changed"; exit 1; }
