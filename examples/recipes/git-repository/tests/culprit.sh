#!/usr/bin/env bash
set -euo pipefail
. "$HOME/tests/git.sh"
# A hash and nothing else: to git a word may also be an option, and write a file.
culprit=$(head -c 41 "$HOME/workdir/culprit" | tr -d '\n')
[[ $culprit =~ ^[0-9a-f]{40}$ ]]
test "$(ask log -1 --format=%s --end-of-options "$culprit")" = "Step 4"
