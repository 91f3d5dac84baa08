import { useSyncExternalStore } from "react";
import { ApiError, type Client, createClient } from "../client/client.ts";

/** Gone with the tab; never in an address, a cookie or local storage. */
const TOKEN = "paddock-token";

const listeners = new Set<() => void>();
let isTokenWanted = false;

/** The server that this page came from. A request that it refuses for want of a token makes the page ask for one. */
export const server: Client = createClient({
	baseUrl: location.origin,
	fetch: async (url, init) => {
		const headers = new Headers(init.headers);
		const token = sessionStorage.getItem(TOKEN);
		if (token !== null) headers.set("authorization", `Bearer ${token}`);
		// Told apart by this from a person's browser, which would pop up a window of its own on a Basic challenge.
		headers.set("x-paddock-console", "1");
		const response = await fetch(url, { ...init, headers, credentials: "omit" });
		if (response.status === 401) wantToken(true);
		return response;
	},
});

export function saveToken(token: string): void {
	sessionStorage.setItem(TOKEN, token);
	wantToken(false);
}

export function useTokenWanted(): boolean {
	return useSyncExternalStore(subscribe, () => isTokenWanted);
}

function subscribe(listener: () => void): () => void {
	listeners.add(listener);
	return () => listeners.delete(listener);
}

function announce(): void {
	for (const listener of listeners) listener();
}

function wantToken(wanted: boolean): void {
	isTokenWanted = wanted;
	announce();
}

let readOnly: boolean | null = null;

/** Whether nothing can be launched or changed here; asked once. */
export function useReadOnly(): boolean {
	const known = useSyncExternalStore(subscribe, () => readOnly);
	if (known === null) void askReadOnly();
	return known ?? false;
}

let asking = false;

async function askReadOnly(): Promise<void> {
	if (asking) return;
	asking = true;
	try {
		readOnly = (await server.status()).readOnly;
		announce();
	} catch {
		// Whoever looks is told by what failed to load; this is asked again with the next page.
	} finally {
		asking = false;
	}
}

/** How the asks of a rollout are answered. */
export function answeringOf(rolloutId: string) {
	return {
		permit: (requestId: string, body: Parameters<Client["answerPermission"]>[2]) =>
			server.answerPermission(rolloutId, requestId, body),
		reply: (requestId: string, body: Parameters<Client["answerQuestion"]>[2]) =>
			server.answerQuestion(rolloutId, requestId, body),
	};
}

/** What went wrong, for people. */
export function sayError(error: unknown): string {
	if (error instanceof ApiError) return error.message;
	if (error instanceof TypeError) return "the server does not answer; is it still running?";
	return error instanceof Error ? error.message : String(error);
}
