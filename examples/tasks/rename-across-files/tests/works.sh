#!/bin/bash
# The program does what it did, under the new name.
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

expected='[200,300,"undefined",840,"attic","suite 200\nattic 80"]'
answer=$(js answers.mjs)
[ "$answer" = "$expected" ] && exit 0
echo "expected $expected, got $answer"
exit 1
