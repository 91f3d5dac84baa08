import type { Conversation } from "../agent/agent.ts";
import type { Live } from "../live/live.ts";

/** What the agent writes is heard while it writes it; the log gets what is finished. */
export function passOnText(id: string, conversation: Conversation, live: Live): Disposable {
	const voice = live.speak(id);
	const listening = conversation.subscribe((event) => {
		if (event.type === "text") voice.say({ type: "text", ...event.piece });
		if (event.type !== "agent-event" || event.name !== "message.part.updated") return;
		const part = event.properties.part as { id?: unknown; time?: { end?: unknown } } | undefined;
		if (part?.time?.end !== undefined && typeof part.id === "string") voice.finished(part.id);
	});
	return {
		[Symbol.dispose]: () => {
			listening[Symbol.dispose]();
			voice[Symbol.dispose]();
		},
	};
}
