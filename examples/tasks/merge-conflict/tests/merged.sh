#!/bin/bash
# The merge is concluded and holds what lies in the folder.
set -u

# The repository was in the agent's hands: its history is read from a copy without its configuration, which can name programs.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r .git "$copy/.git"
rm -rf "$copy/.git/hooks" "$copy/.git/config.worktree" "$copy/.git/info/attributes"
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n' > "$copy/.git/config"
git() { GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null command git --no-pager -C "$copy" "$@"; }

[ ! -e .git/MERGE_HEAD ] || { echo "the merge is not concluded"; exit 1; }
[ "$(git symbolic-ref --short HEAD)" = main ] || { echo "not on main"; exit 1; }
[ "$(git rev-list --merges --count HEAD)" = 1 ] || { echo "there is no merge commit"; exit 1; }
[ "$(git rev-list --count HEAD)" = 4 ] || { echo "there are $(git rev-list --count HEAD) commits, not 4"; exit 1; }
[ "$(git show HEAD:menu.txt)" = "$(cat menu.txt)" ] || { echo "menu.txt has changes that are not committed"; exit 1; }
