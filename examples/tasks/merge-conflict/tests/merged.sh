#!/bin/bash
# The merge is concluded and holds what lies in the folder.
. "$HOME/tests/git.sh"

[ ! -e .git/MERGE_HEAD ] || { echo "the merge is not concluded"; exit 1; }
[ "$(ask rev-parse HEAD)" = "$(ask rev-parse main)" ] || { echo "not on main"; exit 1; }
[ "$(ask rev-list --merges --count main)" = 1 ] || { echo "there is no merge commit"; exit 1; }
[ "$(ask rev-list --count main)" = 4 ] || { echo "there are $(ask rev-list --count main) commits, not 4"; exit 1; }
ask cat-file blob main:menu.txt | cmp -s - menu.txt || { echo "menu.txt has changes that are not committed"; exit 1; }
