import { spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** The oldest Node that runs the TypeScript sources as they are: type stripping, `await using`, node:sqlite. */
const OLDEST = 24;

export function isNodeNewEnough(version = process.versions.node) {
	return Number.parseInt(version, 10) >= OLDEST;
}

/** The Node that came along as a dependency, beside us or further up; null when npm has not installed it. */
export function findBundledNode(root = ROOT) {
	const places = ["node/bin/node", ".bin/node", "node/bin/node.exe"];
	const folders = [];
	for (let folder = root; ; folder = dirname(folder)) {
		folders.push(join(folder, "node_modules"));
		if (folder === dirname(folder)) break;
	}
	const found = folders.flatMap((folder) => places.map((place) => join(folder, place))).filter(existsSync);
	return found.find((node) => isNodeNewEnough(versionOf(node))) ?? null;
}

function versionOf(node) {
	const { stdout } = spawnSync(node, ["--version"], { encoding: "utf8" });
	return (stdout ?? "").trim().replace(/^v/, "") || "0";
}

/** Where to get a new enough Node from: this one, the bundled one, or null. */
export function newEnoughNode() {
	return isNodeNewEnough() ? process.execPath : findBundledNode();
}

/** The environment of children: `node` means the bundled one to everything below. */
export function childEnvironment(extra = {}) {
	const separator = process.platform === "win32" ? ";" : ":";
	const path = [join(ROOT, "node_modules", ".bin"), process.env.PATH ?? ""].join(separator);
	return { ...process.env, PATH: path, ...extra };
}

const LOOK_FOR_PARENT_MS = 250;

/**
 * npm and npx start us through a shell. A SIGTERM ends them and that shell, which does not pass it on: that our parent
 * is another one now is all we can see of it. Others who start us and leave may mean to. The callback says false when
 * nobody can be told yet.
 */
export function whenOrphaned(callback) {
	if (process.env.npm_lifecycle_event === undefined) return;
	const parent = process.ppid;
	const looking = setInterval(() => {
		if (process.ppid !== parent && callback() !== false) clearInterval(looking);
	}, LOOK_FOR_PARENT_MS);
	looking.unref();
}

/**
 * Runs a program in the foreground; resolves to its exit code. Ctrl-C reaches it through the terminal, so this process
 * only waits; other requests to stop are passed on. When this process is killed outright, the closed channel tells
 * the child (see bin/paddock.mjs).
 */
export function runInForeground(command, args, options = {}) {
	const child = spawn(command, args, {
		cwd: options.cwd,
		env: options.env ?? process.env,
		stdio: options.channel ? ["inherit", "inherit", "inherit", "ipc"] : "inherit",
	});
	let isStopping = false;
	const waitOnly = () => {
		isStopping = true;
	};
	const passOn = (signal) => {
		isStopping = true;
		child.kill(signal);
	};
	// Ctrl-C has ended the shell above us too; a second request would end the child at once.
	whenOrphaned(() => {
		if (!isStopping) passOn("SIGTERM");
	});
	process.on("SIGINT", waitOnly);
	process.on("SIGTERM", passOn);
	process.on("SIGHUP", passOn);
	return new Promise((resolve, reject) => {
		child.once("error", reject);
		child.once("exit", (code, signal) => {
			process.off("SIGINT", waitOnly);
			process.off("SIGTERM", passOn);
			process.off("SIGHUP", passOn);
			resolve(code ?? (signal === "SIGINT" ? 130 : signal === "SIGTERM" ? 143 : 1));
		});
	});
}
