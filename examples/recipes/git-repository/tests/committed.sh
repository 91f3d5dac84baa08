#!/usr/bin/env bash
set -euo pipefail
. "$HOME/tests/git.sh"
test "$(ask show HEAD:settings.conf)" = $'limit=60\nunit=minutes'
test "$(ask log --format=%s HEAD~1 -1)" = "Step 6"
