# `ask` is git for the history that the agent left. Its repository cannot be asked: configuration, hooks, attributes, links and servers
# for what is missing name programs that git would run with the rights of this test. So a git without trust hands out its commits, and
# they are read in a repository made afterwards, where nothing of the agent's could write.
set -euo pipefail
bundle=$(mktemp -p "$HOME/logs/verifier")
run-untrusted git -C "$HOME/workdir" bundle create -q - HEAD --branches > "$bundle"
repository=$(mktemp -d -p "$HOME/logs/verifier")
trap 'rm -rf "$bundle" "$repository"' EXIT

ask() {
  GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_NO_REPLACE_OBJECTS=1 git --no-pager --git-dir="$repository" "$@"
}

ask init -q --bare --template=
# Only a bundle is taken for one: fetch and clone would also follow a file that names another repository.
ask bundle unbundle "$bundle" > "$repository/names"
while read -r commit name; do ask update-ref --no-deref "$name" "$commit"; done < "$repository/names"
