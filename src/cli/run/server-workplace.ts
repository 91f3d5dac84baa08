import { ApiError, type Client, createClient, retried } from "../../client/client.ts";
import { UsageError } from "../../errors.ts";
import { submitToServer } from "./server-submit.ts";
import { connectionCause, refusal } from "./server-trouble.ts";
import type { Workplace } from "./workplace.ts";

/** A person who looks at it can stop it; a script that nobody looks at must end some day. */
const QUEUE_FOR_MS = 24 * 3600 * 1000;

/** A Paddock server elsewhere does the work; this process only asks and shows. */
export async function openServerWorkplace(
	url: string,
	env: Record<string, string | undefined>,
	wanted: { sandbox: string },
	warn: (message: string) => void,
): Promise<Workplace> {
	if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
		throw new UsageError(
			`--server wants an address such as http://127.0.0.1:8000, not "${url}".`,
			"bad_option",
		);
	}
	const client = createClient({ baseUrl: url.replace(/\/+$/, ""), token: env.PADDOCK_TOKEN });
	await requireServer(client, url, wanted.sandbox);
	return {
		leftOver: 0,
		submit(requests, n, noMoreTries) {
			const retry = { noMoreTries, queueForMs: QUEUE_FOR_MS, onWait: sayWhy(url, warn) };
			return submitToServer(client, requests, n, retry);
		},
		// The server's own workers have begun already.
		start: async () => {},
		follow: (id) => client.events(id),
		result: (id) => retried(() => client.result(id)),
		abort: (id) => client.abort(id),
		async *files(id) {
			const { blobs } = await retried(() => client.files(id));
			for (const name of blobs) yield { name, data: await retried(() => client.blob(id, name)) };
		},
		[Symbol.asyncDispose]: async () => {},
	};
}

async function requireServer(client: Client, url: string, sandbox: string): Promise<void> {
	try {
		const why = await whyNot(client, sandbox);
		if (why === null) return;
		throw new UsageError(
			`The sandbox "${sandbox}" is not available on ${url}: ${why}.`,
			"sandbox_unavailable",
		);
	} catch (error) {
		if (error instanceof UsageError) throw error;
		if (error instanceof ApiError) throw new UsageError(refusal(error, url), "server_refused");
		const why = connectionCause(error);
		throw new UsageError(`No Paddock server answers at ${url} (${why}).`, "server_unreachable");
	}
}

/** Null when it is there. An agent that a named machine does not have yet comes with the first box. */
async function whyNot(client: Client, sandbox: string): Promise<string | null> {
	const host = /^ssh:(.+)$/.exec(sandbox)?.[1];
	const found = host === undefined ? (await client.sandboxes())[sandbox] : await client.checkHost(host);
	if (found === undefined) return "it does not know it";
	const isMissing = (name: string) => host !== undefined && name === "agent";
	return found.checks.find(({ ok, name }) => !ok && !isMissing(name))?.detail ?? null;
}

/** Each reason once, however often it is waited for. */
function sayWhy(url: string, warn: (message: string) => void): (error: unknown) => void {
	const said = new Set<string>();
	return (error) => {
		const isQueueFull = error instanceof ApiError && error.status === 429;
		const why = isQueueFull
			? `The queue of ${url} is full; waiting for room (Ctrl-C stops).`
			: `${url} does not answer right now; trying again.`;
		if (!said.has(why)) warn(why);
		said.add(why);
	};
}
