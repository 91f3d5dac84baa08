import { createInterface } from "node:readline";
import { messageOf } from "../../errors.ts";
import { openStoreAt } from "../../store/place.ts";
import type { Store } from "../../store/store.ts";
import { refreshLogin } from "../refresh.ts";
import { TokensLimited, TokensRefused } from "../token-request.ts";
import type { FromRefresher, RefreshTrouble, ToRefresher } from "./wire.ts";

/**
 * Refreshes logins in a process of its own, apart from the holder's group and terminal: whoever kills the holder between
 * the provider's answer and the store does not kill this. What was begun is finished, then it ends with its holder.
 */
const underWay = new Set<Promise<void>>();
let store: Promise<Store> | null = null;

// The holder's end is told by the end of the input; a polite signal must not cut a refresh in two.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
	process.on(signal, () => process.stdin.destroy());
// A holder that died reads no answers.
process.stdout.on("error", () => {});

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
	const said = JSON.parse(line) as ToRefresher;
	if ("place" in said) store = openStoreAt(said.place);
	else follow(said);
});
process.stdin.once("close", () => void leave());

function follow(said: Extract<ToRefresher, { id: number }>): void {
	const done = answer(said).finally(() => underWay.delete(done));
	underWay.add(done);
}

async function answer({ id, order }: Extract<ToRefresher, { id: number }>): Promise<void> {
	let trouble: FromRefresher["trouble"] = null;
	try {
		await refreshLogin((await store!).credentials, order);
	} catch (error) {
		trouble = { type: typeOf(error), message: messageOf(error) };
	}
	process.stdout.write(`${JSON.stringify({ id, trouble } satisfies FromRefresher)}\n`);
}

function typeOf(error: unknown): RefreshTrouble {
	if (error instanceof TokensRefused) return "dead";
	if (error instanceof TokensLimited) return "limited";
	return (error as { code?: unknown }).code === "credential_lost" ? "lost" : "outage";
}

async function leave(): Promise<void> {
	await Promise.all(underWay);
	await (await store)?.[Symbol.asyncDispose]();
	process.exit(0);
}
