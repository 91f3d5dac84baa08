import type { IncomingHttpHeaders } from "node:http";
import type { Purpose } from "../../model/call.ts";
import { isObject, type JsonObject, type Protocol } from "../protocols/protocol.ts";

/** Set by the plugin we put into the agent; never goes upstream. */
export const AGENT_HEADER = "x-paddock-agent";

/** Whose call it is, as far as the agent says. */
export interface Origin {
	purpose: Purpose;
	agentName: string | null;
	sessionId: string | null;
	parentSessionId: string | null;
}

export function originOf(headers: IncomingHttpHeaders, body: JsonObject, protocol: Protocol): Origin {
	const agentName = read(headers, AGENT_HEADER);
	const sessionId = read(headers, "x-session-id");
	const parentSessionId = read(headers, "x-parent-session-id");
	const told = agentName === null ? purposeByText(body, protocol) : purposeByName(agentName);
	const purpose = told ?? (parentSessionId === null ? "main" : "subagent");
	return { purpose, agentName, sessionId, parentSessionId };
}

function purposeByName(agentName: string): Purpose | null {
	if (agentName === "title") return "title";
	return agentName === "compaction" || agentName === "summary" ? "compaction" : null;
}

/** Without the plugin: title and compaction calls carry no tools and a system prompt of their own. */
function purposeByText(body: JsonObject, protocol: Protocol): Purpose | null {
	const { messages, tools } = protocol.split(body);
	if (tools.length > 0) return null;
	const first = messages.find(
		(message) => isObject(message) && (message.role === "system" || message.role === "developer"),
	);
	const system = textOf(isObject(first) ? first.content : protocol.systemOf(body));
	if (/title generator/i.test(system)) return "title";
	return /context summarization agent/i.test(system) ? "compaction" : null;
}

/** Only its beginning matters. */
function textOf(content: unknown): string {
	return (typeof content === "string" ? content : (JSON.stringify(content) ?? "")).slice(0, 4000);
}

function read(headers: IncomingHttpHeaders, name: string): string | null {
	const value = headers[name];
	return typeof value === "string" && value !== "" ? value.slice(0, 200) : null;
}
