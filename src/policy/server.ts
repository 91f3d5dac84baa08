import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { messageOf, RolloutError } from "../errors.ts";
import { ChatRequest } from "./chat.ts";
import { type Completion, toChunks } from "./completion.ts";
import { POLICY_NAMES, requirePolicy } from "./names.ts";
import type { PolicyServer, Role } from "./policy.ts";
import { openRecording, type Recording } from "./replay.ts";
import { type Pace, respond } from "./respond.ts";
import { nextLine } from "./script.ts";
import { normalise, renderPrompt } from "./template.ts";

const MAX_BODY_BYTES = 64 * 1024 * 1024;
const MODEL_LENGTH = 131_072;

export interface PolicyServerOptions extends Pace {
	host?: string;
	port?: number;
}

interface Part {
	role: Role;
	key: Buffer;
	recording: Recording | null;
}

/** Serves the scripted models in vLLM's dialect. */
export async function openPolicyServer(options: PolicyServerOptions = {}): Promise<PolicyServer> {
	const parts = new Map<string, Part>();
	const server = createServer((request, response) => {
		answer(request, response, parts, options).catch((error) => {
			if (response.headersSent) response.destroy();
			else refuse(response, toRefusal(error));
		});
	});
	server.keepAliveTimeout = 60_000;
	server.listen(options.port ?? 0, options.host ?? "127.0.0.1");
	await once(server, "listening");
	const { address, port } = server.address() as AddressInfo;
	const baseUrl = `http://${address.includes(":") ? `[${address}]` : address}:${port}/v1`;
	return {
		baseUrl,
		names: POLICY_NAMES,
		async cast(role, as) {
			requirePolicy(role.policy);
			const model = as?.model ?? `${role.policy}-${randomBytes(6).toString("hex")}`;
			const apiKey = as?.apiKey ?? randomBytes(24).toString("base64url");
			const recording = role.policy === "replay" ? openRecording(role) : null;
			parts.set(model, { role, key: digest(apiKey), recording });
			return {
				endpoint: {
					name: role.policy,
					baseUrl,
					model,
					apiKey,
					dialect: "vllm",
					// A script has one way to go, whatever the temperature.
					logprobsMode: "processed_logprobs",
					disableThinking: false,
				},
				[Symbol.dispose]() {
					parts.delete(model);
					recording?.close();
				},
			};
		},
		async [Symbol.asyncDispose]() {
			for (const part of parts.values()) part.recording?.close();
			const closed = once(server, "close");
			server.close();
			server.closeAllConnections();
			await closed;
		},
	};
}

async function answer(
	request: IncomingMessage,
	response: ServerResponse,
	parts: ReadonlyMap<string, Part>,
	pace: Pace,
): Promise<void> {
	const path = new URL(request.url ?? "/", "http://policy").pathname;
	const key = digest((request.headers.authorization ?? "").replace(/^Bearer /i, ""));
	if (request.method === "GET" && path === "/v1/models") return listModels(response, parts, key);
	if (request.method !== "POST" || !["/v1/chat/completions", "/tokenize"].includes(path)) {
		throw new Refusal(404, `There is nothing at ${request.method} ${path}.`);
	}
	const raw = await readBody(request);
	const body = parseRequest(raw);
	const part = parts.get(body.model);
	if (part === undefined || !timingSafeEqual(part.key, key)) {
		// One answer for both, so that a key cannot be used to ask which models exist.
		throw new Refusal(401, "The key does not fit the model.");
	}
	if (path === "/tokenize") return tokenize(response, body);
	const id = `chatcmpl-${createHash("sha256").update(raw).digest("hex").slice(0, 24)}`;
	const completion = (await part.recording?.next(part.role, body, id)) ?? play(part.role, body);
	await respond(response, body, completion, pace, id);
}

function play(role: Role, request: ChatRequest): Completion {
	const { step, callStem } = nextLine(role, request);
	const calls = (step.calls ?? []).map(({ tool, args }) => ({
		name: tool,
		args: typeof args === "string" ? normalise(args) : JSON.stringify(args),
	}));
	// Agents drop blanks at the end of what they keep, and the next prompt has to repeat it exactly.
	const said = { reasoning: step.reasoning?.trimEnd() ?? "", text: step.text?.trimEnd() ?? "", calls };
	const limit = request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY;
	const promptIds = request.kv_transfer_params?.prompt_token_ids ?? renderPrompt(request);
	return {
		promptIds,
		promptTokens: promptIds.length,
		...toChunks(said, (call) => `${callStem}_${call}`, Math.max(1, limit)),
		delayMs: step.delayMs ?? 0,
	};
}

/** What a prompt would be, without an answer to it. */
function tokenize(response: ServerResponse, request: ChatRequest): void {
	const tokens = renderPrompt(request);
	response.writeHead(200, { "content-type": "application/json" });
	response.end(JSON.stringify({ count: tokens.length, max_model_len: MODEL_LENGTH, tokens }));
}

function listModels(response: ServerResponse, parts: ReadonlyMap<string, Part>, key: Buffer): void {
	const data = [...parts]
		.filter(([, part]) => timingSafeEqual(part.key, key))
		.map(([id]) => ({ id, object: "model", owned_by: "paddock", max_model_len: MODEL_LENGTH }));
	if (data.length === 0) throw new Refusal(401, "The key is not known.");
	response.writeHead(200, { "content-type": "application/json" });
	response.end(JSON.stringify({ object: "list", data }));
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
	const chunks: Buffer[] = [];
	let size = 0;
	for await (const chunk of request as AsyncIterable<Buffer>) {
		size += chunk.length;
		if (size > MAX_BODY_BYTES) throw new Refusal(413, "The request is too large.");
		chunks.push(chunk);
	}
	return Buffer.concat(chunks);
}

function parseRequest(raw: Buffer): ChatRequest {
	let json: unknown;
	try {
		json = JSON.parse(raw.toString("utf8"));
	} catch {
		throw new Refusal(400, "The body is not JSON.");
	}
	const parsed = ChatRequest.safeParse(json);
	if (parsed.success) return parsed.data;
	const issue = parsed.error.issues[0]!;
	throw new Refusal(400, `${issue.path.join(".") || "body"}: ${issue.message}`);
}

/** An answer in the protocol's own error shape. */
class Refusal extends Error {
	readonly status: number;

	constructor(status: number, message: string) {
		super(message);
		this.status = status;
	}
}

/** A classified failure will not go away by asking again; anything else might. */
function toRefusal(error: unknown): Refusal {
	if (error instanceof Refusal) return error;
	return new Refusal(error instanceof RolloutError ? 400 : 500, messageOf(error));
}

function refuse(response: ServerResponse, { status, message }: Refusal): void {
	const type =
		status === 401 ? "authentication_error" : status < 500 ? "invalid_request_error" : "server_error";
	response.writeHead(status, { "content-type": "application/json", connection: "close" });
	response.end(JSON.stringify({ error: { message, type, param: null, code: status } }));
}

function digest(key: string): Buffer {
	return createHash("sha256").update(key).digest();
}
