import { ApiError, type Client, createClient } from "../client/client.ts";
import { messageOf, UsageError } from "../errors.ts";
import type { Runner } from "./runner.ts";

/** A Paddock server elsewhere does the work; this process only asks and shows. */
export async function openServerRunner(
	url: string,
	env: Record<string, string | undefined>,
	wanted: { sandbox: string },
): Promise<Runner> {
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
		async submit(request, n) {
			const { rollouts } = await client.submit({ ...request, n });
			return rollouts.map(({ id }) => ({ id }));
		},
		// The server's own workers have begun already.
		start: async () => {},
		follow: (id) => client.events(id),
		result: (id) => client.result(id),
		abort: (id) => client.abort(id),
		async *files(id) {
			for (const name of (await client.files(id)).blobs) yield { name, data: await client.blob(id, name) };
		},
		[Symbol.asyncDispose]: async () => {},
	};
}

async function requireServer(client: Client, url: string, sandbox: string): Promise<void> {
	try {
		const found = (await client.sandboxes())[sandbox];
		if (found?.ok === true) return;
		const why = found?.checks.find((check) => !check.ok)?.detail ?? "it does not know it";
		throw new UsageError(
			`The sandbox "${sandbox}" is not available on ${url}: ${why}.`,
			"sandbox_unavailable",
		);
	} catch (error) {
		if (error instanceof UsageError) throw error;
		if (error instanceof ApiError) {
			const hint = error.status === 401 ? " Set PADDOCK_TOKEN to its token." : "";
			throw new UsageError(`${url} refused: ${error.message}.${hint}`, "server_refused");
		}
		throw new UsageError(`No Paddock server answers at ${url} (${causeOf(error)}).`, "server_unreachable");
	}
}

/** fetch hides the reason one level down. */
function causeOf(error: unknown): string {
	const cause = error instanceof Error ? error.cause : undefined;
	return messageOf(cause ?? error) || "no connection";
}
