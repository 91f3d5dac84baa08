#!/bin/bash
# Each file moves on by one, and the log begins anew.
. "$HOME/tests/start.sh"

echo new > "my app.log"; echo one > "my app.log.1"; echo two > "my app.log.2"
run-untrusted "$script" "my app.log" 5
is "exit code" $? 0
is log "$(cat "my app.log")" ""
is first "$(cat "my app.log.1")" new
is second "$(cat "my app.log.2")" one
is third "$(cat "my app.log.3")" two
is files "$(ls | wc -l)" 4
