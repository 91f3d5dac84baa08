#!/usr/bin/env bash
set -euo pipefail
. "$HOME/tests/git.sh"
test "$(ask log -1 --format=%s "$(head -c 40 "$HOME/workdir/culprit")")" = "Step 4"
