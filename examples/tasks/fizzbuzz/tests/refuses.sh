#!/bin/bash
# What is not a whole number is refused: exit code 2, a message on standard error, nothing on standard output.
set -u

for bad in x 3.5 '' '1 2'; do
  output=$(bash fizzbuzz.sh "$bad" 2>/tmp/message)
  code=$?
  [ "$code" = 2 ] || { echo "exit code $code for '$bad'"; exit 1; }
  [ -z "$output" ] || { echo "output for '$bad'"; exit 1; }
  [ -s /tmp/message ] || { echo "no message for '$bad'"; exit 1; }
done
