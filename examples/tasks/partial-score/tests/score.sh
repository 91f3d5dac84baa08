#!/bin/bash
# Writes the fraction of right answers as the reward. Runs nothing that the agent wrote.
set -u
total=5
right=0
while IFS= read -r line; do
  grep -Fxq -- "$line" answers.txt 2> /dev/null && right=$((right + 1))
done < "$HOME/tests/answers.txt"
# Two answers to one question are none.
if [ "$(cut -d : -f 1 answers.txt 2> /dev/null | sort | uniq -d | wc -l)" -gt 0 ]; then right=0; fi

awk -v right="$right" -v total="$total" 'BEGIN { printf "{\"reward\": %.4f}\n", right / total }' \
  > "$HOME/logs/verifier/reward.json"
echo "$right of $total"
