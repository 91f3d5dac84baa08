/**
 * What the machine itself must bring, in one list: `command` is looked for on PATH unless it is a path (and has to succeed with the
 * arguments `probe`, where there are any), `apt` is the Debian/Ubuntu package that brings it, `why` is said to people
 * who have to install it by hand.
 */
export const RUN_PARTS = [
	{ command: "bwrap", apt: "bubblewrap", why: "builds the local sandbox" },
	{ command: "rg", apt: "ripgrep", why: "the agent searches with it" },
	{ command: "git", apt: "git", why: "the agent and many tasks use it" },
];

/** What only the full test run needs; without them the tests concerned are skipped, saying so. */
export const TEST_PARTS = [
	{ command: "sshd", apt: "openssh-server", why: "tests of the ssh sandbox" },
	{ command: "pg_ctlcluster", apt: "postgresql", why: "tests of the PostgreSQL store and queue" },
	{ command: "dockerd", apt: "docker.io", recommends: true, why: "tests of the docker sandbox" },
	{ command: "podman", apt: "podman", recommends: true, why: "tests of the docker sandbox without a daemon" },
	{ command: "runc", apt: "runc", why: "the container runtime of those tests" },
	{ command: "debootstrap", apt: "debootstrap", why: "builds the image of those tests" },
	{
		command: "python3",
		probe: ["-c", "import ensurepip, venv"],
		apt: "python3-venv",
		why: "tests against Python clients",
	},
	{ command: "chromium", apt: "chromium", why: "tests of the console in a real browser" },
	{ command: "tmux", apt: "tmux", why: "tests of the live progress display" },
];

/** Python packages that tests speak to, in an environment of their own. */
export const PYTHON_FOLDER = ".paddock/openenv";
export const PYTHON_PACKAGES = ["openenv==0.4.2"];

/** Commands that live where only root's PATH looks. */
export const SYSTEM_FOLDERS = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
