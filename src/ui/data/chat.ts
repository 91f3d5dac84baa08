import type { z } from "zod";
import { type EndpointSpec, modelOf } from "../../model/endpoint.ts";
import type { LogEvent } from "./log-event.ts";

/** Something was said that no turn has answered yet. */
export function isWorking(events: readonly LogEvent[]): boolean {
	const last = events.findLast(
		(event) =>
			event.type === "message-sent" || event.type === "turn-end" || event.type === "conversation-end",
	);
	return last?.type === "message-sent";
}

/** The model that answers next: the one that was chosen last, also before it was opened again; else its endpoint's. */
export function modelNow(endpoint: EndpointSpec, events: readonly LogEvent[]): string {
	const chosen = events.findLast((event) => event.type === "model-set");
	return chosen?.type === "model-set" ? chosen.model : modelOf(endpoint);
}

/** Why the model cannot be changed to this one; null when it can. */
export function whyNotModel(status: string, now: string, wanted: string): string | null {
	if (status === "closed") return "it is closed: open it again first";
	if (wanted.trim() === "") return "name a model, as its endpoint calls it";
	return wanted.trim() === now ? "it has this model" : null;
}

/** Esc stops a turn; where none goes on, or nobody is there to stop it, it does nothing. */
export function canInterrupt(status: string, events: readonly LogEvent[]): boolean {
	return status === "open" && isWorking(events);
}

/** Before the name of a kept agent, among endpoints. */
export const KEPT = "agent:";

/** Whom a new conversation is held with: a kept agent, an endpoint of the catalog, or (without a name) one at an address. */
export function heldWith(
	name: string | null,
	form: { baseUrl: string; model: string; apiKey: string },
): { keptAgent: string } | { endpoint: z.input<typeof EndpointSpec> } {
	const { baseUrl, model, apiKey } = form;
	if (name?.startsWith(KEPT)) return { keptAgent: name.slice(KEPT.length) };
	if (name !== null) return { endpoint: { type: "named", name, ...(model === "" ? {} : { model }) } };
	return { endpoint: { type: "url", baseUrl, model, ...(apiKey === "" ? {} : { apiKey }) } };
}
