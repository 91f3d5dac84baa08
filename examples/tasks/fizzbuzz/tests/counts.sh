#!/bin/bash
# Counts to several ends and compares every line with an independent answer.
set -u

expected() {
  awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) print (i % 15 == 0 ? "FizzBuzz" : i % 5 == 0 ? "Buzz" : i % 3 == 0 ? "Fizz" : i) }'
}

ends=(1 3 5 15 31 100)
all='for n in "$@"; do bash fizzbuzz.sh "$n"; done'
if ! diff <(for n in "${ends[@]}"; do expected "$n"; done) <(run-untrusted bash -c "$all" bash "${ends[@]}"); then
  echo "wrong for one of n = ${ends[*]}"
  exit 1
fi
diff <(expected 15) <(run-untrusted bash fizzbuzz.sh) || { echo "wrong without an argument"; exit 1; }
