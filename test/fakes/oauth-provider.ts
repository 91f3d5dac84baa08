import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AUTH_FILE, CONFIG_FILE, type LoginFiles } from "../../src/credential/login.ts";

/** One login at the provider. Of its refresh tokens only the newest is good; an older one ends them all. */
interface Family {
	refresh: string;
	access: string;
	isAlive: boolean;
	/** Requests for its tokens that are being answered just now. */
	asking: number;
	/** Model calls that are being answered just now. */
	calling: number;
	/** Who has called models with it and said their name, the last one last. */
	users: string[];
}

export interface OauthProvider extends AsyncDisposable {
	readonly tokenUrl: string;
	/** Models, for whoever brings a living access token. */
	readonly baseUrl: string;
	readonly clientId: string;
	/** Every token that it ever handed out. */
	readonly issued: string[];
	/** How often a refresh token was traded for a new one. */
	rotations: number;
	/** How often somebody came with one that was spent. */
	reuses: number;
	/** How often two asked for tokens of one login at the same time. */
	overlaps: number;
	/** Model calls with tokens that are not good. */
	refused: number;
	/** Model calls of one user beside another's with the same login, or after another has had it. */
	intrusions: number;
	/** A new login, as `opencode auth login` would leave it. */
	login(name: string): LoginFiles;
	/** Whether this is the newest refresh token of a living login. */
	isNewest(refresh: string): boolean;
	/** Takes back an access token before its time. */
	revokeAccess(): void;
	/** Ends every login. */
	revokeAll(): void;
	/** Called when the new tokens stand and nobody knows them yet, with what the token URL had behind its `?`. */
	onRotation: (asked: string) => void | Promise<void>;
	/** Called before a model call is answered, with whether its token is good. */
	onModelCall: (isGood: boolean) => void | Promise<void>;
	/** Answers instead of the token endpoint. */
	instead: ((response: ServerResponse) => void) | null;
}

/** Speaks RFC 6749, section 6, with rotating refresh tokens, and ends a login when a spent one comes back (RFC 9700). */
export async function openOauthProvider(
	options: {
		lifetimeS?: number;
		/** An access token is taken back after so many calls. */
		callsPerToken?: number;
		models?: { baseUrl: string; apiKey: string };
	} = {},
): Promise<OauthProvider> {
	const { lifetimeS = 3600, callsPerToken = Number.POSITIVE_INFINITY, models } = options;
	const calls = new Map<string, number>();
	const families = new Map<string, Family>();
	const issued: string[] = [];
	const token = (kind: string) => {
		issued.push(`${kind}-${randomBytes(16).toString("hex")}`);
		return issued.at(-1)!;
	};
	const server = createServer((request, response) => void answer(request, response));
	const clientId = "test-client";

	async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
		const body = Buffer.concat(await request.toArray()).toString("utf8");
		const [path, asked = ""] = request.url!.split("?");
		if (path === "/token") return provider.instead?.(response) ?? (await trade(body, asked, response));
		const given = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
		const uses = (calls.get(given ?? "") ?? 0) + 1;
		calls.set(given ?? "", uses);
		const family = [...families.values()].find((one) => one.isAlive && one.access === given);
		const isGood = uses <= callsPerToken && family !== undefined;
		if (family) noteUse(family, body, response);
		await provider.onModelCall(isGood);
		if (!isGood) {
			provider.refused += 1;
			return send(response, 401, { error: { message: `no such token: ${given}` } });
		}
		if (!models && body.includes('"stream":true')) return stream(response, completion(body));
		if (!models) return send(response, 200, completion(body));
		const { "content-type": type = "application/json" } = request.headers;
		const from = await fetch(`${models.baseUrl}${request.url!.replace(/^\/v1/, "")}`, {
			method: request.method!,
			headers: { "content-type": type, authorization: `Bearer ${models.apiKey}` },
			...(body === "" ? {} : { body }),
		});
		response.writeHead(from.status, { "content-type": from.headers.get("content-type") ?? "text/plain" });
		for await (const chunk of from.body ?? []) response.write(chunk);
		response.end();
	}

	function noteUse(family: Family, body: string, response: ServerResponse): void {
		const user = /"user":"([^"]+)"/.exec(body)?.[1];
		if (user === undefined) return;
		if (family.users.at(-1) !== user) {
			if (family.calling > 0 || family.users.includes(user)) provider.intrusions += 1;
			family.users.push(user);
		}
		family.calling += 1;
		response.once("close", () => {
			family.calling -= 1;
		});
	}

	async function trade(body: string, asked: string, response: ServerResponse): Promise<void> {
		const form = new URLSearchParams(body);
		const spent = form.get("refresh_token") ?? "";
		const family = families.get(spent);
		if (form.get("grant_type") !== "refresh_token" || form.get("client_id") !== clientId)
			return send(response, 400, { error: "invalid_request" });
		if (family && family.refresh !== spent) {
			provider.reuses += 1;
			family.isAlive = false;
		}
		if (!family?.isAlive) return send(response, 400, { error: "invalid_grant" });
		if (++family.asking > 1) provider.overlaps += 1;
		Object.assign(family, { refresh: token("refresh"), access: token("access") });
		families.set(family.refresh, family);
		provider.rotations += 1;
		const { access, refresh } = family;
		await provider.onRotation(asked);
		family.asking -= 1;
		send(response, 200, {
			...{ access_token: access, refresh_token: refresh, token_type: "Bearer", expires_in: lifetimeS },
		});
	}

	server.listen(0, "127.0.0.1");
	await once(server, "listening");
	const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
	const provider: OauthProvider = {
		...{ tokenUrl: `${origin}/token`, baseUrl: `${origin}/v1`, clientId, issued },
		...{
			rotations: 0,
			reuses: 0,
			overlaps: 0,
			refused: 0,
			intrusions: 0,
			onRotation: () => {},
			onModelCall: () => {},
			instead: null,
		},
		login(name) {
			const fresh = { refresh: token("refresh"), access: token("access") };
			const family: Family = { ...fresh, isAlive: true, asking: 0, calling: 0, users: [] };
			families.set(family.refresh, family);
			const { refresh, access } = family;
			const entry = { type: "oauth", refresh, access, expires: Date.now() + lifetimeS * 1000 };
			return new Map([
				[AUTH_FILE, Buffer.from(JSON.stringify({ [name]: entry }))],
				[CONFIG_FILE, Buffer.from(JSON.stringify({ model: `${name}/model` }))],
			]);
		},
		isNewest: (refresh) => {
			const family = families.get(refresh);
			return family?.refresh === refresh && family.isAlive;
		},
		revokeAccess: () => {
			for (const family of families.values()) family.access = token("unheard");
		},
		revokeAll: () => {
			for (const family of families.values()) family.isAlive = false;
		},
		async [Symbol.asyncDispose]() {
			server.closeAllConnections();
			server.close();
			await once(server, "close");
		},
	};
	return provider;
}

function send(response: ServerResponse, status: number, body: object): void {
	response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

/** The same answer for who wants it piece by piece. */
function stream(response: ServerResponse, { choices }: ReturnType<typeof completion>): void {
	const [{ message, finish_reason }] = choices;
	const piece = (choice: object) =>
		`data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 0, model: "m", choices: [{ index: 0, ...choice }] })}\n\n`;
	response.writeHead(200, { "content-type": "text/event-stream" });
	response.write(piece({ delta: message, finish_reason: null }));
	response.end(`${piece({ delta: {}, finish_reason })}data: [DONE]\n\n`);
}

/** A model that knows its capitals. */
function completion(body: string) {
	const asked = /capital of (\w+)/.exec(body)?.[1] ?? "";
	const capitals: Record<string, string> = { France: "Paris", Japan: "Tokyo", Egypt: "Cairo", Peru: "Lima" };
	const content = capitals[asked] ?? "ok";
	return { choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }] as const };
}
