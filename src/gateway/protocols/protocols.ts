import { messages } from "./anthropic-messages.ts";
import { chat } from "./openai-chat.ts";
import { responses } from "./openai-responses.ts";
import type { Protocol } from "./protocol.ts";

const PROTOCOLS = new Map<string, Protocol>(
	[chat, responses, messages].map((protocol) => [`/v1${protocol.path}`, protocol]),
);

/** What is spoken at a path of ours, if anything. */
export function protocolAt(path: string): Protocol | null {
	return PROTOCOLS.get(path) ?? null;
}

/** Spoken to whoever has not said what they speak. */
export const COMMON_PROTOCOL = chat;
