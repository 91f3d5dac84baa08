#!/bin/bash
# The answers, worked out from a copy of the log that the agent never had in its hands.
set -eu -o pipefail

requests() {
  sed -nE 's/^[0-9.]+ \[[^]]+\] "([A-Z]+) ([^ ?]+)[^ ]* HTTP\/[0-9.]+" ([0-9]{3}) ([0-9]+)$/\3 \4 \1 \2/p' "$HOME/tests/access.txt"
}

case $1 in
  errors) requests | grep '^5' | cut -d ' ' -f 4 | LC_ALL=C sort | uniq -c | sed 's/^ *//' | LC_ALL=C sort -k1,1nr -k2 ;;
  slow) requests | cut -d ' ' -f 2- | sort -s -k1,1nr | sed -n 1,5p ;;
esac
