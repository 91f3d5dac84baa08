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

fail() {
  echo "$1"
  exit 1
}

# The list is here and nowhere else, and so is the count of how often it was asked for an element.
reads() {
  local length=100000 first=$RANDOM step=$((RANDOM % 7 + 2)) at=$(((RANDOM * 32768 + RANDOM) % 100000)) count=0 line
  coproc SEARCH { js answers.mjs reads "$length" $((first + step * at)); }
  exec {answers}<&"${SEARCH[0]}" {questions}>&"${SEARCH[1]}"
  while IFS= read -r line <&"$answers" && [[ $line == "? "* ]]; do
    [[ ${line#"? "} =~ ^[0-9]{1,9}$ ]] || fail "reads: asked for $line"
    count=$((count + 1))
    [ "$count" -le 60 ] || fail "reads: more than 60 look-ups in $length numbers"
    [ "${line#"? "}" -lt "$length" ] && echo $((first + step * ${line#"? "})) >&"$questions" || echo none >&"$questions"
  done
  [ "$line" = "[$at]" ] || fail "reads: expected [$at], got $line"
  exit 0
}

case $1 in
  finds) expected='[0,1,2,3,4,5,6,-1,-1,-1,-1]' ;;
  first) expected='[0,1,4]' ;;
  reads) reads ;;
esac
answer=$(js answers.mjs "$1")
[ "$answer" = "$expected" ] && exit 0
fail "$1: expected $expected, got $answer"
