#!/bin/bash
# Counts to several ends and compares every line with an independent answer.
set -euo pipefail
# In a folder that the script cannot have prepared, and before it runs: an answer that it kept from being worked out would be empty.
wanted=$(mktemp -d -p "$HOME/logs/verifier")

expected() {
  awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) print (i % 15 == 0 ? "FizzBuzz" : i % 5 == 0 ? "Buzz" : i % 3 == 0 ? "Fizz" : i) }'
}

ends=(1 3 5 15 31 100)
for n in "${ends[@]}"; do expected "$n"; done > "$wanted/counts"
expected 15 > "$wanted/default"

all='for n in "$@"; do bash fizzbuzz.sh "$n"; done'
run-untrusted bash -c "$all" bash "${ends[@]}" | diff "$wanted/counts" - || { echo "wrong for one of n = ${ends[*]}"; exit 1; }
run-untrusted bash fizzbuzz.sh | diff "$wanted/default" - || { echo "wrong without an argument"; exit 1; }
