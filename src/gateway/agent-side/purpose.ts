import type { IncomingHttpHeaders } from "node:http";
import type { Purpose } from "../../model/call.ts";
import { isObject, type JsonObject, toArray } from "../protocols/protocol.ts";

/** Set by the plugin we put into the agent; never goes upstream. */
export const AGENT_HEADER = "x-paddock-agent";

/** Whose call it is, as far as the agent says. */
export interface Origin {
	purpose: Purpose;
	agentName: string | null;
	sessionId: string | null;
	parentSessionId: string | null;
}

export function originOf(headers: IncomingHttpHeaders, body: JsonObject): Origin {
	const agentName = read(headers, AGENT_HEADER);
	const sessionId = read(headers, "x-session-id");
	const parentSessionId = read(headers, "x-parent-session-id");
	return { purpose: purposeOf(agentName, parentSessionId, body), agentName, sessionId, parentSessionId };
}

function purposeOf(agentName: string | null, parentSessionId: string | null, body: JsonObject): Purpose {
	if (agentName === "title") return "title";
	if (agentName === "compaction" || agentName === "summary") return "compaction";
	if (agentName === null) {
		const told = purposeByText(body);
		if (told) return told;
	}
	return parentSessionId === null ? "main" : "subagent";
}

/** Without the plugin: title and compaction calls carry no tools and a system prompt of their own. */
function purposeByText(body: JsonObject): Purpose | null {
	if (toArray(body.tools).length > 0) return null;
	const system = systemText(body);
	if (/title generator/i.test(system)) return "title";
	if (/context summarization agent/i.test(system)) return "compaction";
	return null;
}

/** The system prompt in whichever of the three protocols; only its beginning matters. */
function systemText(body: JsonObject): string {
	const first = [...toArray(body.messages), ...toArray(body.input)].find(
		(message) => isObject(message) && (message.role === "system" || message.role === "developer"),
	);
	const content = isObject(first) ? first.content : (body.system ?? body.instructions);
	return (typeof content === "string" ? content : (JSON.stringify(content) ?? "")).slice(0, 4000);
}

function read(headers: IncomingHttpHeaders, name: string): string | null {
	const value = headers[name];
	return typeof value === "string" && value !== "" ? value.slice(0, 200) : null;
}
