#!/bin/bash
# No more than asked for are kept, even when there were more before.
. "$HOME/tests/start.sh"

for i in 1 2 3 4 5 6 7 8 9 10 11; do echo "$i" > "log.$i"; done
echo now > log
echo other > log.txt
run-untrusted "$script" log 2
is "exit code" $? 0
is files "$(ls | tr '\n' ' ')" "log log.1 log.2 log.txt "
is first "$(cat log.1)" now
is second "$(cat log.2)" 1
