import { createHash } from "node:crypto";
import { RolloutError, UsageError } from "../errors.ts";
import type { ModelCall } from "../model/call.ts";
import { ChatMessage, type ChatRequest, textOf } from "./chat.ts";
import type { Chunk, Completion, Delta, Token } from "./completion.ts";
import type { Role } from "./policy.ts";
import { occasionOf } from "./script.ts";
import { toSaid } from "./template.ts";

/** A recorded rollout being played back, call by call. Reads ahead only as far as it must. */
export interface Recording {
	/** `requestId` is the same for a repeated request, which gets the same answer. */
	next(role: Role, request: ChatRequest, requestId: string): Promise<Completion>;
	close(): void;
}

export function openRecording(role: Role): Recording {
	if (role.recorded === undefined)
		throw new UsageError("replay needs a recorded rollout to play.", "replay_without_trace");
	const calls = role.recorded()[Symbol.asyncIterator]();
	const skipped: ModelCall[] = [];
	const latest = new Map<string, { requestId: string; completion: Completion }>();
	let turn: Promise<unknown> = Promise.resolve();

	async function take(fits: (call: ModelCall) => boolean): Promise<ModelCall | null> {
		const kept = skipped.findIndex(fits);
		if (kept >= 0) return skipped.splice(kept, 1)[0]!;
		for (let next = await calls.next(); !next.done; next = await calls.next()) {
			if (!next.value.complete || next.value.superseded) continue;
			if (fits(next.value)) return next.value;
			skipped.push(next.value);
		}
		return null;
	}

	async function play(request: ChatRequest, requestId: string): Promise<Completion> {
		const occasion = occasionOf(role, request);
		const purpose = occasion === "chat" ? "main" : occasion;
		const opening = openingOf(request.messages);
		const lane = purpose === "subagent" ? `subagent ${opening}` : purpose;
		const last = latest.get(lane);
		if (last?.requestId === requestId) return last.completion;
		const isSame = (call: ModelCall) =>
			call.purpose === purpose && (purpose !== "subagent" || openingOf(messagesOf(call)) === opening);
		const call = (await take(isSame)) ?? (await take((other) => other.purpose === purpose));
		if (call === null) {
			throw new RolloutError(
				"provider",
				"replay_exhausted",
				`The recording holds no further ${purpose} call.`,
			);
		}
		const completion = toCompletion(call, request);
		latest.set(lane, { requestId, completion });
		return completion;
	}

	return {
		next(_role, request, requestId) {
			// One at a time: two sessions must not read the recording past each other.
			const played = turn.then(() => play(request, requestId));
			turn = played.catch(() => undefined);
			return played;
		},
		close() {
			void calls.return?.();
		},
	};
}

/** The recorded reply, spread over as many chunks as it had tokens. */
function toCompletion(call: ModelCall, request: ChatRequest): Completion {
	const deltas = toDeltas(call.response.message ?? {});
	const tokens = toTokens(call);
	const count = Math.max(1, deltas.length, tokens.length);
	const chunks = Array.from({ length: count }, (): Chunk => ({ delta: {}, tokens: [] }));
	for (const [index, delta] of deltas.entries()) {
		chunks[Math.floor((index * count) / deltas.length)]!.delta = delta;
	}
	for (const [index, token] of tokens.entries()) {
		chunks[Math.floor((index * count) / tokens.length)]!.tokens.push(token);
	}
	// The recorded ids are those of the recorded prompt. Where the conversation took another turn they would be a lie.
	const isSamePrompt = fingerprint(messagesOf(call)) === fingerprint(request.messages);
	return {
		promptIds: isSamePrompt && call.promptIds.length > 0 ? call.promptIds : null,
		promptTokens: call.usage?.promptTokens ?? call.promptIds.length,
		chunks,
		finishReason: call.response.finishReason ?? "stop",
		delayMs: 0,
	};
}

function toTokens(call: ModelCall): Token[] {
	const count = Math.max(call.completionIds.length, call.logprobs.length);
	return Array.from({ length: count }, (_, index): Token => {
		const text = call.completionTexts[index] ?? "";
		return {
			id: call.completionIds[index] ?? null,
			text,
			bytes: [...Buffer.from(text)],
			logprob: call.logprobs[index] ?? null,
		};
	});
}

const PIECE = /[\s\S]{1,12}/gu;

function toDeltas(message: Record<string, unknown>): Delta[] {
	const parsed = ChatMessage.parse({ role: "assistant", ...message });
	const said = toSaid(parsed);
	const deltas: Delta[] = [];
	for (const [piece] of said.reasoning.matchAll(PIECE)) deltas.push({ reasoning: piece });
	for (const [piece] of said.text.matchAll(PIECE)) deltas.push({ content: piece });
	for (const [index, call] of (parsed.tool_calls ?? []).entries()) {
		const id = call.id ?? `call_${index}`;
		deltas.push({
			tool_calls: [{ index, id, type: "function", function: { name: call.function.name, arguments: "" } }],
		});
		for (const [piece] of call.function.arguments.matchAll(PIECE)) {
			deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] });
		}
	}
	return deltas;
}

function messagesOf(call: ModelCall): ChatMessage[] {
	return call.request.messages.map((message) => ChatMessage.parse(message));
}

function openingOf(messages: readonly ChatMessage[]): string {
	const first = messages.find((message) => message.role === "user");
	return first === undefined ? "" : textOf(first);
}

function fingerprint(messages: readonly ChatMessage[]): string {
	const said = messages.map((message) => [message.role, toSaid(message)]);
	return createHash("sha256").update(JSON.stringify(said)).digest("hex");
}
