#!/usr/bin/env bash
# Writes files/repo.bundle: a whole repository, history included, as one file. For a repository you have:
#   git -C /path/to/repository bundle create "$PWD/files/repo.bundle" HEAD main
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
cd "$made"
export GIT_AUTHOR_DATE="2026-01-01T00:00:00Z" GIT_COMMITTER_DATE="2026-01-01T00:00:00Z"
git init -q -b main .
git config user.name "A writer of tasks"
git config user.email writer@example.com
for step in 1 2 3 4 5 6; do
	echo "limit=$((step * 10))" > settings.conf
	# The fourth commit is the one to be found.
	if [ "$step" -ge 4 ]; then echo "unit=hours" >> settings.conf; else echo "unit=minutes" >> settings.conf; fi
	echo "*.log" > .gitignore
	git add settings.conf .gitignore
	git commit -q -m "Step $step"
done
mkdir -p "$here/files"
git bundle create -q "$here/files/repo.bundle" HEAD main
