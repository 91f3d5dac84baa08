import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { findBundledNode, newEnoughNode, ROOT } from "./node24.mjs";
import { PYTHON_FOLDER, PYTHON_PACKAGES, RUN_PARTS, SYSTEM_FOLDERS, TEST_PARTS } from "./system-packages.mjs";

/** Brings whatever is missing; silent and quick when nothing is. Ends the process with one clear message when it cannot. */
export function ensureReady(options = {}) {
	ensureDependencies();
	ensureParts(options.everything ? [...RUN_PARTS, ...TEST_PARTS] : RUN_PARTS);
	if (options.everything) ensurePython();
	ensureConsole();
}

/** The web page, built once and again when its sources have changed. */
export function ensureConsole() {
	const built = join(ROOT, "dist", "web", "index.html");
	const sources = ["src/ui", "src/client", "src/api", "src/model"].flatMap((folder) =>
		readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true }),
	);
	const newest = Math.max(...sources.map((entry) => statSync(join(entry.parentPath, entry.name)).mtimeMs));
	if (existsSync(built) && statSync(built).mtimeMs >= newest) return;
	const vite = join(ROOT, "node_modules", "vite", "bin", "vite.js");
	// Built with tools that a production install leaves out.
	if (!existsSync(vite))
		runQuietly(npm(), ["install", "--include=dev", "--loglevel=error"], "npm install failed");
	say("Building the console …");
	// Whatever the surroundings say: React for developers is half as large again, and slow.
	const env = { ...process.env, NODE_ENV: "production" };
	runQuietly(newEnoughNode(), [vite, "build", "src/ui"], "building the console failed", env);
}

export function ensureDependencies() {
	if (dependenciesAreFresh()) return;
	say("Installing dependencies (npm install) …");
	const args = ["install", "--no-audit", "--no-fund", "--loglevel=error"];
	// The lock file knows the optional packages of some platforms only; elsewhere the exact versions of
	// package.json decide.
	if (!lockKnowsThisPlatform()) args.push("--no-package-lock");
	runQuietly(npm(), args, "npm install failed");
	if (!binariesArePresent()) runQuietly(npm(), ["rebuild", "node", "opencode-ai"], "npm rebuild failed");
	if (!binariesArePresent()) {
		fail(
			"npm did not run the install steps of the packages node and opencode-ai; allow them with: npm install --ignore-scripts=false",
		);
	}
	const now = new Date();
	utimesSync(installedLock(), now, now);
}

function ensureParts(parts) {
	const missing = parts.filter((part) => !isPresent(part));
	if (missing.length === 0) return;
	const packages = missing.map((part) => part.apt);
	if (canUseApt()) {
		say(`Installing ${packages.join(", ")} (apt-get) …`);
		const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
		runQuietly("apt-get", ["update", "-q"], "apt-get update failed", env);
		// Container engines do not work without what they recommend; for the rest it would only be ballast.
		const lean = missing.some((part) => part.recommends) ? [] : ["--no-install-recommends"];
		const install = ["install", "-q", "-y", ...lean, ...packages];
		runQuietly("apt-get", install, "apt-get install failed", env);
		return;
	}
	const lines = missing.map((part) => `  ${part.command.padEnd(12)} ${part.why}`);
	fail(
		`These programs are missing:\n${lines.join("\n")}\nInstall them, e.g. on Debian or Ubuntu: sudo apt-get install ${packages.join(" ")}`,
	);
}

function ensurePython() {
	const folder = join(ROOT, PYTHON_FOLDER);
	const stamp = join(folder, "installed.txt");
	const wanted = PYTHON_PACKAGES.join("\n");
	if (existsSync(stamp) && readFileSync(stamp, "utf8") === wanted) return;
	say(`Installing ${PYTHON_PACKAGES.join(", ")} (pip) …`);
	runQuietly("python3", ["-m", "venv", folder], "python3 -m venv failed");
	runQuietly(join(folder, "bin", "pip"), ["install", "--quiet", ...PYTHON_PACKAGES], "pip install failed");
	writeFileSync(stamp, wanted);
}

function dependenciesAreFresh() {
	const lock = join(ROOT, "package-lock.json");
	if (!existsSync(installedLock()) || !binariesArePresent()) return false;
	return !existsSync(lock) || statSync(installedLock()).mtimeMs >= statSync(lock).mtimeMs;
}

function installedLock() {
	return join(ROOT, "node_modules", ".package-lock.json");
}

/** Both come by install scripts, which npm may have been told not to run. */
function binariesArePresent() {
	const opencode = join(ROOT, "node_modules", "opencode-ai", "bin", "opencode.exe");
	return existsSync(opencode) && findBundledNode() !== null;
}

function lockKnowsThisPlatform() {
	try {
		const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
		return `node_modules/opencode-${process.platform}-${process.arch}` in lock.packages;
	} catch {
		return false;
	}
}

function isPresent(part) {
	if (!isOnPath(part.command)) return false;
	return part.probe === undefined || spawnSync(part.command, part.probe, { stdio: "ignore" }).status === 0;
}

function isOnPath(command) {
	if (command.startsWith("/")) return existsSync(command);
	const folders = [...(process.env.PATH ?? "").split(delimiter), ...SYSTEM_FOLDERS];
	return folders.some((folder) => existsSync(join(folder, command)));
}

function canUseApt() {
	return process.getuid?.() === 0 && existsSync("/etc/debian_version") && isOnPath("apt-get");
}

/** npm as the one that started us, so that no second version gets involved. */
function npm() {
	return process.env.npm_execpath ?? "npm";
}

/** Output is shown only when the command fails. */
function runQuietly(command, args, message, env = process.env) {
	const [program, programArgs] = command.endsWith(".js")
		? [process.execPath, [command, ...args]]
		: [command, args];
	const { status, stdout, stderr, error } = spawnSync(program, programArgs, {
		cwd: ROOT,
		env,
		encoding: "utf8",
		maxBuffer: 64 * 1024 * 1024,
		stdio: ["ignore", "pipe", "pipe"],
	});
	if (status === 0) return;
	process.stderr.write(`${stdout ?? ""}${stderr ?? ""}`);
	fail(`${message}${error ? `: ${error.message}` : ` (exit code ${status})`}; its output is above.`);
}

function say(text) {
	process.stderr.write(`${text}\n`);
}

function fail(text) {
	say(text);
	process.exit(1);
}
