import { setImmediate } from "node:timers/promises";
import { RolloutError, within } from "../../errors.ts";
import type { RolloutRequest } from "../../model/request.ts";
import { HOME, type Task, WORKDIR } from "../../model/task.ts";
import { type ExecResult, pathIn, type Sandbox } from "../../sandbox/sandbox.ts";
import { openBox, type ReadyBox } from "../boxes/ready-box.ts";
import { transfer } from "../boxes/snapshot.ts";
import { inTime } from "../clock.ts";
import type { Deps } from "../deps.ts";
import { type Admission, toGivenLink } from "./admit.ts";

const MAX_DIFF_BYTES = 1024 * 1024;
const DIFF_S = 30;
/** A full disk takes its time to be brought over, and filling it is no way around the verdict. */
const LEAST_MB_PER_S = 10;
const MAX_MEMBERS = 250_000;
/** Boxes without walls have no disk of their own that would limit what comes out of them. */
const BYTES_PER_DISK = 4;

/** Opens a box with what the agent was given. Its workdir is set aside, to make room for the agent's and to be compared with. */
export async function openCleanBox(
	request: RolloutRequest,
	ready: ReadyBox,
	deps: Deps,
	signal: AbortSignal,
): Promise<Sandbox> {
	const ms = request.task.clocks.createS * 1000;
	return await within(
		"verifier",
		"clean_box_failed",
		async () => {
			const clean = await openBox({ backend: deps.backend }, request, signal);
			const given = ready.given.stream();
			try {
				const filling = clean.unpack(given).then(() => setAside(clean, signal));
				await inTime(filling, { ms, late: () => tooSlow("unpacking into"), signal });
				return clean;
			} catch (error) {
				given.destroy();
				await clean[Symbol.asyncDispose]();
				throw error;
			}
		},
		{ retryable: true },
	);
}

/**
 * Brings the agent's workdir and declared artifacts into the clean box, and says how the workdir differs from the given one
 * before any test can touch it.
 */
export async function fill(
	task: Task,
	agentBox: Sandbox,
	clean: Sandbox,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<string> {
	const filling = within(
		"verifier",
		"clean_box_failed",
		async () => {
			try {
				await bringOver(task, agentBox, clean, signal, say);
			} catch (error) {
				if (!(await agentBox.hasBrokenItself())) throw error;
				say("the agent broke its box, and what it made is gone with it: what it was given is verified");
				await putBack(clean, signal);
			}
			return await difference(clean, signal);
		},
		{ retryable: true },
	);
	const ms = (task.clocks.createS + DIFF_S + task.box.diskMb / LEAST_MB_PER_S) * 1000;
	return await inTime(filling, { ms, late: () => tooSlow("filling"), signal });
}

export async function hasClosed(box: Sandbox): Promise<boolean> {
	const closed = box.closed.then(
		() => true,
		() => true,
	);
	return await Promise.race([closed, setImmediate(false)]);
}

/** Laid over the given workdir, a file that the agent removed would be back. */
async function setAside(clean: Sandbox, signal: AbortSignal): Promise<void> {
	const { before, workdir } = placesIn(clean);
	const script = `mkdir -p ${before} ${workdir} && chmod u+rwx ${workdir} && mv ${workdir} ${before}/a`;
	requireDone(await clean.exec(script, { signal }));
}

/** What was set aside is the workdir again, whatever has come over of another. */
async function putBack(clean: Sandbox, signal: AbortSignal): Promise<void> {
	const { before, workdir } = placesIn(clean);
	const script = `chmod -R u+rwX ${workdir}; rm -rf ${workdir} && cp -a ${before}/a ${workdir}`;
	requireDone(await clean.exec(script, { signal }));
}

function requireDone({ exitCode, stderr }: ExecResult): void {
	if (exitCode !== 0)
		throw new RolloutError("verifier", "clean_box_failed", stderr.slice(-500), { retryable: true });
}

function placesIn(clean: Sandbox): { before: string; workdir: string } {
	// On the same disk: to set the given workdir aside is one step then, whatever its size.
	return { before: `${clean.home}/.before-${clean.id}`, workdir: pathIn(clean, WORKDIR) };
}

export function tooSlow(doing: string): RolloutError {
	return new RolloutError("verifier", "clean_box_failed", `${doing} the clean box took too long`, {
		retryable: true,
	});
}

async function bringOver(
	task: Task,
	agentBox: Sandbox,
	clean: Sandbox,
	signal: AbortSignal,
	say: (text: string) => void,
): Promise<void> {
	const workdir = belowHome(WORKDIR);
	const paths = await presentPaths(agentBox, workdir, task.artifacts.map(belowHome), signal);
	if (paths.length === 0) return;
	const admission: Admission = {
		paths,
		folders: [workdir],
		home: clean.home,
		givenLinks: await givenLinks(clean, workdir, signal),
		maxMembers: MAX_MEMBERS,
		maxBytes: task.box.diskMb * BYTES_PER_DISK * 1024 * 1024,
	};
	await transfer(agentBox, clean, admission, say);
}

const MAX_LINKS_BYTES = 1024 * 1024;

/** What setup linked in the workdir, which lies aside by now. */
async function givenLinks(clean: Sandbox, workdir: string, signal: AbortSignal): Promise<Set<string>> {
	const find = ["find", `${placesIn(clean).before}/a`, "-type", "l", "-printf", "%P\\0%l\\0"];
	const { stdout } = await clean.exec(find, { signal, maxOutputBytes: MAX_LINKS_BYTES });
	const words = stdout.split("\0").slice(0, -1);
	const links = words.flatMap((word, at) => (at % 2 === 0 ? [[word, words[at + 1] ?? ""] as const] : []));
	return new Set(links.map(([place, target]) => toGivenLink(`${workdir}/${place}`, target)));
}

async function difference(clean: Sandbox, signal: AbortSignal): Promise<string> {
	const { before, workdir } = placesIn(clean);
	// A link of the agent's may lead to something endless; b itself is followed because of its slash.
	const compare = "diff -ruN --no-dereference -x .git -x node_modules a/ b/";
	const tidy = `chmod -R u+rwX ${before}/a; rm -rf ${before}`;
	const script = `mkdir -p ${workdir} && ln -s ${workdir} ${before}/b && cd ${before} && ${compare}; ${tidy}`;
	const { stdout, timedOut } = await clean.exec(script, {
		signal,
		timeoutMs: DIFF_S * 1000,
		maxOutputBytes: MAX_DIFF_BYTES,
	});
	if (timedOut) await clean.exec(tidy, { signal });
	return stdout;
}

function belowHome(artifact: string): string {
	const path = artifact.startsWith(`${HOME}/`) ? artifact.slice(HOME.length + 1) : "";
	if (path === "" || path.split("/").includes(".."))
		throw new RolloutError("task", "bad_path", `${artifact}: artifacts lie below ${HOME} only`);
	return path;
}

/**
 * A workdir the agent removed, or swapped for something else, is an empty one. What it made unreadable for itself is made readable,
 * or no archive of it could be made. The answer comes out of the agent's box: it may leave paths out, not name others.
 */
async function presentPaths(
	box: Sandbox,
	workdir: string,
	artifacts: readonly string[],
	signal: AbortSignal,
): Promise<string[]> {
	const paths = [workdir, ...artifacts];
	const argv = ["bash", "-c", FIND_PRESENT, box.home, ...paths];
	const { stdout } = await box.exec(argv, { cwd: "/", signal });
	const present = new Set(stdout.split("\0"));
	return paths.filter((path) => present.has(path));
}

/** $0: home; $1: the workdir; the rest: artifacts, which may also be files. */
const FIND_PRESENT = `chmod u+rwx "$0"; cd "$0" || exit
workdir=$1
for path in "$@"; do
	[ -L "./$path" ] && continue
	[ -d "./$path" ] || { [ -f "./$path" ] && [ "$path" != "$workdir" ]; } || continue
	printf "%s\\0" "$path"
	chmod -R u+rX "./$path"
done 2> /dev/null`;
