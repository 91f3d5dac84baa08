# The agent could have left hooks, monitors or aliases in the repository's own configuration: none of it is asked.
ask() {
	GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null git -c core.fsmonitor=false -c core.hooksPath=/dev/null \
		-c core.pager=cat -C "$HOME/workdir" "$@"
}
