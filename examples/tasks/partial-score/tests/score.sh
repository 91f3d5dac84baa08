#!/bin/bash
# Writes the fraction of right answers as the reward. Runs nothing that the agent wrote.
set -euo pipefail
total=5
right=0

# Five short answers. What is larger was made so that a command below fails, and none of them may pass for an answer then. What is no
# text has other lines for one command than for the next.
if [ -f answers.txt ] && [ "$(wc -c < answers.txt)" -le 1000 ] && \
  [ "$(LC_ALL=C tr -d '\n -~' < answers.txt | wc -c)" -eq 0 ]; then
  while IFS= read -r line; do
    if grep -Fxq -- "$line" answers.txt; then right=$((right + 1)); fi
  done < "$HOME/tests/answers.txt"
  # Two answers to one question are none.
  twice=$(cut -d : -f 1 answers.txt | sort | uniq -d)
  if [ -n "$twice" ]; then right=0; fi
fi

awk -v right="$right" -v total="$total" 'BEGIN { printf "{\"reward\": %.4f}\n", right / total }' \
  > "$HOME/logs/verifier/reward.json"
echo "$right of $total"
