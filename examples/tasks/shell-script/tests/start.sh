# Sourced by the tests: an empty folder to work in, and the script to be tested.
set -u
script=$PWD/rotate.sh
[ -x "$script" ] || { echo "rotate.sh is not executable"; exit 1; }
cd "$(mktemp -d)" || exit 1

is() {
  [ "$2" = "$3" ] && return
  echo "$1: expected '$3', got '$2'"
  exit 1
}
