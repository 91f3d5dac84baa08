#!/bin/bash
# Counts to several ends and compares every line with an independent answer.
set -u

expected() {
  awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) print (i % 15 == 0 ? "FizzBuzz" : i % 5 == 0 ? "Buzz" : i % 3 == 0 ? "Fizz" : i) }'
}

for n in 1 3 5 15 31 100; do
  if ! diff <(expected "$n") <(bash fizzbuzz.sh "$n"); then
    echo "wrong for n = $n"
    exit 1
  fi
done
diff <(expected 15) <(bash fizzbuzz.sh) || { echo "wrong without an argument"; exit 1; }
