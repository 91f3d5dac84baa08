import { Refusal } from "./agent-side/refusal.ts";
import { isObject, type JsonObject, toArray, toText } from "./protocols/protocol.ts";

/** Fields by which providers are asked to search the web or to talk to other servers. */
const REACHING_FIELDS = ["web_search_options", "search_parameters", "mcp_servers", "plugins"];

/** Tools that the agent itself carries out; any other type runs at the provider. */
const OWN_TOOL = /^(function|custom|(bash|text_editor|computer|memory)_\d+)$/;

const ADDRESSES = ["image_url", "video_url", "audio_url", "file_url", "url"];

/**
 * A box has the network its task allows and no other. What an engine or a provider would fetch for it, or run for it,
 * would be a way around that; pictures travel inside the request.
 */
export function refuseReaching(body: JsonObject): void {
	const reaching = reachingOf(body);
	if (reaching === null) return;
	const message = `${reaching} would reach the network by way of the model; send data instead of addresses`;
	throw new Refusal(400, "remote_content", message);
}

function reachingOf(body: JsonObject): string | null {
	const field = REACHING_FIELDS.find((name) => body[name] !== undefined && body[name] !== null);
	if (field !== undefined) return field;
	for (const tool of toArray(body.tools)) {
		const type = isObject(tool) ? toText(tool.type) : null;
		if (type !== null && !OWN_TOOL.test(type)) return `the tool ${JSON.stringify(type.slice(0, 50))}`;
	}
	const messages = [...toArray(body.messages), ...toArray(body.input)];
	return messages.some(hasAddress) ? "content at an address" : null;
}

/** Parts may hold parts: the result of a tool, for one. */
function hasAddress(part: unknown): boolean {
	if (!isObject(part)) return false;
	const isRemote = ADDRESSES.some((name) => {
		const value = isObject(part[name]) ? part[name].url : part[name];
		return typeof value === "string" && !/^\s*data:/i.test(value);
	});
	return (
		isRemote ||
		hasAddress(part.source) ||
		[part.content, part.output].some((inner) => toArray(inner).some(hasAddress))
	);
}
