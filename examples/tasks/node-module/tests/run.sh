#!/bin/bash
# Runs one check and compares its answers.
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
  stores) expected='[true,2,true,2,true,false,1]' ;;
  forgets) expected='[1,true,3,4,true,2]' ;;
  iterates) expected='[["b",2],["c",3],["a",1]]' ;;
  refuses) expected='["RangeError","RangeError","RangeError","RangeError","RangeError","RangeError","accepted"]' ;;
esac
answer=$(js answers.mjs "$1")
[ "$answer" = "$expected" ] && exit 0
echo "$1: expected $expected, got $answer"
exit 1
