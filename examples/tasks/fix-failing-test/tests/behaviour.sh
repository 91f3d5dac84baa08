#!/bin/bash
# The tests of the repository, and some it does not have.
set -u
# A runtime reads settings from the folder it starts in: start where the agent could not leave any.
cd "$HOME/tests" || exit 1

# What the agent wrote sees neither these tests nor the reward; the one file it needs is named.
js() {
  if [ -x /opt/agent/opencode ]; then
    BUN_BE_BUN=1 run-untrusted --read answers.mjs /opt/agent/opencode "$@"
  else
    run-untrusted --read answers.mjs node "$@"
  fi
}

case $1 in
  given) expected='[5400,150,"1h 30m","59s","0s"]' ;;
  more) expected='[93784,"1d 2h 3m 4s","23h 59m 59s","59m 59s","refused","refused","refused",true]' ;;
esac
answer=$(js answers.mjs "$1")
[ "$answer" = "$expected" ] && exit 0
echo "$1: expected $expected, got $answer"
exit 1
