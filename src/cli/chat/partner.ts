import { userInfo } from "node:os";
import { type Client, createClient } from "../../client/client.ts";
import type { Config } from "../../config.ts";
import { UsageError } from "../../errors.ts";
import type { ConversationEvent, ConversationRequest, ConversationRow } from "../../model/conversation.ts";
import type { LiveText } from "../../model/live-text.ts";
import { openHere } from "../open-here.ts";

export type ChatEvent = ConversationEvent | LiveText;

/** An agent's words and acts as OpenCode keeps them. */
export interface SaidMessage {
	info: Record<string, unknown>;
	parts: Record<string, unknown>[];
}

/** The agent one talks to: in this process, or on a server. */
export interface Partner extends AsyncDisposable {
	converse(request: ConversationRequest): Promise<ConversationRow>;
	find(id: string): Promise<ConversationRow | null>;
	/** The newest with this label. */
	newest(label: { name: string; value: string }): Promise<ConversationRow | null>;
	/** A key that it came with was erased when it was closed. */
	reopen(id: string, apiKey: string | undefined): Promise<ConversationRow>;
	/** What waits for somebody. */
	pending(id: string): Promise<ConversationEvent[]>;
	/** Resolves when it is closed, or when the signal fires. */
	follow(
		id: string,
		onEvent: (event: ChatEvent) => void,
		options: { after: number; signal: AbortSignal },
	): Promise<void>;
	messages(id: string): Promise<SaidMessage[]>;
	say(id: string, text: string): Promise<void>;
	interrupt(id: string): Promise<void>;
	permit(
		id: string,
		requestId: string,
		decision: { reply: "once" | "always" | "reject"; message?: string },
	): Promise<void>;
	answer(id: string, requestId: string, answers: string[][] | null): Promise<void>;
	setModel(id: string, model: string): Promise<void>;
	close(id: string): Promise<void>;
}

/** The embedded store, and a worker in this very process. */
export async function openLocalPartner(
	config: Config,
	warn: (message: string) => void,
	options: { adopt: boolean },
): Promise<Partner> {
	await using stack = new AsyncDisposableStack();
	// Whoever types here asks for themselves: there is no queue to protect, and no stranger to refuse.
	const own = { ...config, queueLimit: Number.POSITIVE_INFINITY, token: null, hostAgents: true };
	const paddock = stack.use(await openHere(own, warn, options));
	// A terminal that was cut off may have left the very conversation to go on with, and more. Rollouts are not for a terminal.
	stack.use(await paddock.work({ capacity: 0, conversations: options.adopt ? 2 : 1 }));
	const by = userInfo().username;
	const command = async (id: string, what: Parameters<typeof paddock.command>[1]) => {
		await paddock.command(id, what);
	};
	const owned = stack.move();
	return {
		converse: (request) => paddock.converse(request, { by, isOwner: true }),
		find: (id) => paddock.conversation(id),
		newest: async (label) => (await paddock.conversations({ label }, { limit: 1 })).items[0] ?? null,
		reopen: async (id, apiKey) => (await paddock.reopenConversation(id, { by, apiKey }))!,
		pending: async (id) => (await paddock.pendingAsks(id)) ?? [],
		async follow(id, onEvent, options) {
			for await (const read of paddock.converseLive(id, options))
				onEvent("event" in read ? read.event : read.text);
		},
		messages: async (id) => (await paddock.conversationMessages(id))?.messages ?? [],
		say: async (id, text) => void (await paddock.sendMessage(id, { text, by })),
		interrupt: (id) => command(id, { type: "interrupt", by }),
		permit: (id, requestId, decision) => command(id, { type: "permission", requestId, ...decision, by }),
		answer: (id, requestId, answers) => command(id, { type: "question", requestId, answers, by }),
		setModel: (id, model) => command(id, { type: "model", model, by }),
		close: async (id) => void (await paddock.closeConversation(id)),
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}

/** A Paddock server elsewhere hosts it; this process only asks and shows. */
export function openServerPartner(url: string, env: Record<string, string | undefined>): Partner {
	if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
		throw new UsageError(
			`--server wants an address such as http://127.0.0.1:8000, not "${url}".`,
			"bad_option",
		);
	const client: Client = createClient({ baseUrl: url.replace(/\/+$/, ""), token: env.PADDOCK_TOKEN });
	const by = userInfo().username;
	return {
		converse: (request) => client.converse({ ...request, by }),
		find: (id) => client.conversation(id),
		newest: async ({ name, value }) =>
			(await client.conversations({ label: `${name}=${value}`, limit: 1 })).items[0] ?? null,
		reopen: (id, apiKey) => client.reopenConversation(id, { by, apiKey }),
		pending: async (id) => (await client.pendingAsks(id)).items,
		async follow(id, onEvent, options) {
			for await (const event of client.conversationEvents(id, { ...options, onText: onEvent }))
				onEvent(event);
		},
		messages: async (id) => (await client.conversationMessages(id)).messages,
		say: async (id, text) => void (await client.say(id, text, { by })),
		interrupt: async (id) => void (await client.interruptConversation(id, { by })),
		permit: async (id, requestId, decision) => void (await client.permit(id, requestId, { ...decision, by })),
		answer: async (id, requestId, answers) => void (await client.reply(id, requestId, { answers, by })),
		setModel: async (id, model) => void (await client.setModel(id, model, by)),
		close: async (id) => void (await client.closeConversation(id)),
		[Symbol.asyncDispose]: async () => {},
	};
}
