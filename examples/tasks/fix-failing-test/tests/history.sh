#!/bin/bash
# The repair is committed, and the tests of the repository are still those of the first commit.
. "$HOME/tests/git.sh"

[ "$(ask rev-list --count HEAD)" -ge 2 ] || { echo "nothing was committed"; exit 1; }
ask cat-file blob HEAD:src/duration.mjs | cmp -s - src/duration.mjs || { echo "there are changes that are not committed"; exit 1; }
# The folder by its content, since a history can be made up; then what lies there now.
[ "$(ask rev-parse HEAD:test)" = 2009b767b12ffe9c682ae339cff07c930ed04f27 ] || { echo "the tests were changed"; exit 1; }
ask cat-file blob HEAD:test/run.mjs | cmp -s - test/run.mjs || { echo "the tests were changed"; exit 1; }
