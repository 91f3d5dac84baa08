#!/bin/bash
# The repair is committed, and the tests of the repository are still those of the first commit.
set -u

# The repository was in the agent's hands: it is asked as a copy without its configuration, which can name programs.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r .git "$copy/.git"
rm -rf "$copy/.git/hooks" "$copy/.git/config.worktree" "$copy/.git/info/attributes"
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n' > "$copy/.git/config"
git() { GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null command git --no-pager --git-dir="$copy/.git" --work-tree="$PWD" "$@"; }

[ "$(git rev-list --count HEAD)" -ge 2 ] || { echo "nothing was committed"; exit 1; }
[ -z "$(git diff --no-ext-diff --no-textconv --name-only HEAD -- src)" ] || { echo "there are changes that are not committed"; exit 1; }
first=$(git rev-list --max-parents=0 HEAD)
[ -z "$(git diff --no-ext-diff --no-textconv --name-only "$first" -- test)" ] || { echo "the tests were changed"; exit 1; }
