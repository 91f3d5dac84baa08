/**
 * `run-untrusted [--read <path>]… [--write <path>]… [--] <command>…`: for verifiers that have to run what the agent wrote.
 *
 * The command gets a Landlock domain of its own. It can neither see nor change the hidden tests and the reward folder, nor anything of
 * home but the workdir, look into or signal any process outside, and all that it started ends with it. Its exit code is the command's.
 *
 * It runs twice: the outer one keeps watch from outside of the domain, where no signal of the program's reaches it; the inner one enters the
 * domain and starts the command there. A program that ends the inner one has ended itself.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { dirname, resolve } from "node:path";
import { adoptOrphans, hideFromOthers, reap } from "../init/libc.ts";
import { descendantsOf } from "../init/processes.ts";
import { allBut, confine, type Places } from "./landlock.ts";
import { hasLinkThatGoesUp } from "./links.ts";

const USAGE = 125;
const CANNOT_START = 126;
const NOT_FOUND = 127;
const END_WITHIN_MS = 5_000;

interface Order {
	command: string[];
	reads: string[];
	writes: string[];
}

const {
	UNTRUSTED_CWD: cwd = "/",
	UNTRUSTED_HOME: givenHome = "/",
	UNTRUSTED_BUN: bun,
	UNTRUSTED_INSIDE: isInside,
	...env
} = process.env;
// The program itself is an argument too, which the runtime leaves out.
const order = parse(process.argv.slice(1));
hideFromOthers();
if (isInside) {
	// A verifier may hand its program another home; what has to be protected stays where it is.
	if (!confine(placesFor(order, env.BOX_HOME ?? givenHome))) {
		console.error(
			"run-untrusted: this kernel has no Landlock, so the tests and the reward are not out of the program's reach",
		);
	}
	follow(start(order.command), async () => true);
} else {
	adoptOrphans();
	follow(startInside(), endDescendants);
}

/** This very program once more. */
function startInside(): ChildProcess {
	const [program = "", ...args] = readFileSync("/proc/self/cmdline", "utf8").split("\0").slice(0, -1);
	return spawn(program, args, { env: { ...process.env, UNTRUSTED_INSIDE: "1" }, stdio: "inherit" });
}

function parse(words: string[]): Order {
	const order: Order = { command: [], reads: [], writes: [] };
	for (let at = 0; at < words.length; at += 1) {
		const word = words[at]!;
		if (word === "--read") order.reads.push(resolve(cwd, words[++at] ?? ""));
		else if (word === "--write") order.writes.push(resolve(cwd, words[++at] ?? ""));
		else {
			order.command = words.slice(word === "--" ? at + 1 : at);
			break;
		}
	}
	if (order.command.length > 0) return order;
	console.error("usage: run-untrusted [--read <path>] [--write <path>] [--] <command> …");
	process.exit(USAGE);
}

function placesFor({ reads, writes }: Order, home: string): Places {
	const temporary = [env.TMPDIR ?? "/tmp", ...(home.startsWith("/tmp/") ? [] : ["/tmp"])];
	const writable = [`${home}/workdir`, `${home}/.cache`, ...temporary, "/dev/shm", ...writes];
	return {
		readable: [...allBut([`${home}/tests`, `${home}/logs`]), ...reads],
		// A runtime finds a file by the list of its folder.
		listable: reads.map((path) => dirname(path)),
		usable: ["/dev"],
		writable,
		mayMove: !hasLinkThatGoesUp(writable),
	};
}

function start([program = "", ...args]: string[]): ChildProcess {
	const { BUN_BE_BUN: _, ...rest } = env;
	const inherited = { ...rest, HOME: givenHome, ...(bun ? { BUN_BE_BUN: bun } : {}) };
	return spawn(program, args, { cwd, env: inherited, stdio: "inherit" });
}

function follow(child: ChildProcess, clear: () => Promise<boolean>): void {
	child.on("error", (error: NodeJS.ErrnoException) => {
		const isMissing = error.code === "ENOENT";
		// As a shell says it: whoever looks for what a verifier lacks knows these words.
		console.error(`run-untrusted: ${isMissing ? `${child.spawnfile}: command not found` : error.message}`);
		process.exit(isMissing ? NOT_FOUND : CANNOT_START);
	});
	child.on("exit", async (code, signal) => {
		const ended = await clear();
		if (!ended) console.error("run-untrusted: what the program started could not be ended");
		process.exit(ended ? (code ?? 128 + constants.signals[signal!]) : USAGE);
	});
	for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(name, () => child.kill(name));
}

/** Whoever lost its parent has become our child, so nobody is missed. */
async function endDescendants(): Promise<boolean> {
	for (const deadline = performance.now() + END_WITHIN_MS; performance.now() < deadline; ) {
		const left = descendantsOf(process.pid);
		if (left.length === 0) return true;
		for (const { pid, isZombie } of left) {
			if (isZombie) reap(pid);
			else end(pid);
		}
		await new Promise((done) => setTimeout(done, 2));
	}
	return false;
}

function end(pid: number): void {
	try {
		process.kill(pid, "SIGKILL");
	} catch {
		// Already gone.
	}
}
