import { spawn } from "node:child_process";
import { messageOf, UsageError } from "../errors.ts";

const ANSWER_MS = 10_000;
const MAX_ANSWER = 4096;

/** What a resolver is told of the rollout that wants a credential. */
export interface ResolverQuestion {
	/** What stands behind `resolve:` in the rollout's endpoint. */
	ask: string;
	rolloutId: string;
	attempt: number;
	taskId: string;
	labels: Record<string, string>;
}

/**
 * Asks the operator's own program or service which credential a rollout shall use: the question goes in as JSON, the
 * answer is one line, `cred:<label>` or `pool:<name>`.
 */
export async function resolveBy(resolver: string, question: ResolverQuestion): Promise<string> {
	let said: string;
	try {
		said = await (/^https?:\/\//.test(resolver) ? askUrl : askProgram)(resolver, JSON.stringify(question));
	} catch (error) {
		throw unresolved(messageOf(error));
	}
	const answer = said.trim();
	if (/^(cred|pool):[^\s:]+$/.test(answer)) return answer;
	throw unresolved("its answer is neither cred:<label> nor pool:<name>");
}

async function askUrl(url: string, question: string): Promise<string> {
	const response = await fetch(url, {
		method: "POST",
		headers: { "content-type": "application/json" },
		body: question,
		redirect: "error",
		signal: AbortSignal.timeout(ANSWER_MS),
	});
	if (response.status !== 200) throw new Error(`it answered ${response.status}`);
	return (await response.text()).slice(0, MAX_ANSWER);
}

/** A program, not a shell command; it sees nothing of our keys. */
function askProgram(program: string, question: string): Promise<string> {
	const { promise, resolve, reject } = Promise.withResolvers<string>();
	const { PATH, HOME } = process.env;
	const child = spawn(program, [], {
		...{ env: { PATH, HOME }, timeout: ANSWER_MS, killSignal: "SIGKILL" as const },
		stdio: ["pipe", "pipe", "ignore"],
	});
	let said = "";
	child.stdout.on("data", (chunk: Buffer) => {
		said = (said + chunk.toString()).slice(0, MAX_ANSWER);
	});
	// One that answers without reading has closed its input.
	child.stdin.on("error", () => {});
	child.once("error", reject);
	child.once("close", (code, signal) => {
		if (code === 0) resolve(said);
		else reject(new Error(`it ended with ${signal ?? code}`));
	});
	child.stdin.end(question);
	return promise;
}

function unresolved(why: string): UsageError {
	return new UsageError(`the resolver names no credential: ${why}`, "credential_unresolved");
}
