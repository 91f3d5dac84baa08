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
	return useSyncExternalStore(
		(listener) => {
			listeners.add(listener);
			return () => listeners.delete(listener);
		},
		() => isTokenWanted,
	);
}

function wantToken(wanted: boolean): void {
	isTokenWanted = wanted;
	for (const listener of listeners) listener();
}

/** What went wrong, for people. */
export function sayError(error: unknown): string {
	if (error instanceof ApiError) return error.message;
	if (error instanceof TypeError) return "the server does not answer; is it still running?";
	return error instanceof Error ? error.message : String(error);
}
