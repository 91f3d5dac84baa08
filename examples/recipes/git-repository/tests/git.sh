# The agent could have left hooks, filters, aliases or programs in the repository's own configuration. Its history is read from a copy
# that has none.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$HOME/workdir/.git" "$copy/.git"
rm -rf "$copy/.git/hooks" "$copy/.git/config.worktree" "$copy/.git/info/attributes"
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n' > "$copy/.git/config"

ask() {
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null git --no-pager -C "$copy" "$@"
}
