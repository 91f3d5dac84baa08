#!/bin/bash
# Wrong calls touch nothing and say why.
. "$HOME/tests/start.sh"

echo text > log
for arguments in "missing 3" "log 0" "log x" "log -1" "log"; do
  read -ra list <<< "$arguments"
  message=$(run-untrusted "$script" "${list[@]}" 2>&1 > /dev/null)
  is "exit code for '$arguments'" $? 2
  is "is there a message for '$arguments'" "${message:+yes}" yes
  is "log after '$arguments'" "$(cat log)" text
  is "files after '$arguments'" "$(ls)" log
done
