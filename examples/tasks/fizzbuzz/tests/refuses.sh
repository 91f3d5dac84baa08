#!/bin/bash
# What is not a whole number is refused: exit code 2, a message on standard error, nothing on standard output.
set -u
# In a folder that the script cannot have prepared: it sees nothing of home but its workdir.
streams=$(mktemp -d -p "$HOME/logs/verifier")

for bad in x 3.5 '' '1 2'; do
  run-untrusted bash fizzbuzz.sh "$bad" > "$streams/output" 2> "$streams/message"
  code=$?
  [ "$code" = 2 ] || { echo "exit code $code for '$bad'"; exit 1; }
  [ ! -s "$streams/output" ] || { echo "output for '$bad'"; exit 1; }
  [ -s "$streams/message" ] || { echo "no message for '$bad'"; exit 1; }
done
