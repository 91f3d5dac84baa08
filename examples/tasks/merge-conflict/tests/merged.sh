#!/bin/bash
# The merge is concluded and holds what lies in the folder.
set -u

# The repository was in the agent's hands: nothing it configured may run here.
git() { command git -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"; }

[ ! -e .git/MERGE_HEAD ] || { echo "the merge is not concluded"; exit 1; }
[ "$(git symbolic-ref --short HEAD)" = main ] || { echo "not on main"; exit 1; }
[ "$(git rev-list --merges --count HEAD)" = 1 ] || { echo "there is no merge commit"; exit 1; }
[ "$(git rev-list --count HEAD)" = 4 ] || { echo "there are $(git rev-list --count HEAD) commits, not 4"; exit 1; }
[ "$(git show HEAD:menu.txt)" = "$(cat menu.txt)" ] || { echo "menu.txt has changes that are not committed"; exit 1; }
