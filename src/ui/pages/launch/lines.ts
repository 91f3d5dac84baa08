import type { PermissionRule } from "../../../model/permission.ts";
import type { Network } from "../../../model/task.ts";

/** Labels, rules and hosts as people type them, one a line; whatever does not fit a line is JSON. */
export function readLines(path: string, text: string): unknown {
	const all = text.split("\n").filter((line) => line.trim() !== "");
	if (path === "labels") return toLabels(all);
	if (path === "task.box.network")
		return isWord(all) ? all[0]!.trim() : { allow: all.map((host) => host.trim()) };
	return all.map(toRule);
}

export function writeLines(path: string, value: Record<string, string> | PermissionRule[] | Network): string {
	const text = write(path, value);
	// What would be read otherwise than it was written stays as it is.
	const isSame = text === "" || sorted(readLines(path, text)) === sorted(value);
	if (isSame) return text;
	return Array.isArray(value) ? value.map((each) => JSON.stringify(each)).join("\n") : JSON.stringify(value);
}

function write(path: string, value: Record<string, string> | PermissionRule[] | Network): string {
	if (typeof value === "string") return value;
	if (Array.isArray(value)) return value.map(ruleLine).join("\n");
	if (path === "labels")
		return Object.entries(value)
			.map(([name, each]) => `${name}=${each}`)
			.join("\n");
	return (value as { allow: string[] }).allow.join("\n");
}

function ruleLine(rule: PermissionRule): string {
	const { action, tool, pattern, message } = rule;
	return message === undefined ? `${action} ${tool} ${pattern}` : JSON.stringify(rule);
}

function toRule(line: string): unknown {
	if (line.trimStart().startsWith("{")) return fromJson(line);
	const [, action = "", tool = "", pattern = "*"] = /^\s*(\S+)\s*(\S*)(?:\s(.*))?$/.exec(line) ?? [];
	return { action, tool, pattern };
}

function toLabels(all: readonly string[]): unknown {
	if (all[0]?.trimStart().startsWith("{")) return fromJson(all.join("\n"));
	return Object.fromEntries(
		all.map((line) => {
			const at = line.indexOf("=");
			return at < 0 ? [line, ""] : [line.slice(0, at), line.slice(at + 1)];
		}),
	);
}

function isWord(all: readonly string[]): boolean {
	return all.length === 1 && ["none", "internet"].includes(all[0]!.trim());
}

/** What is no JSON stays text, and is refused as such. */
function fromJson(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return text;
	}
}

function sorted(value: unknown): string {
	return JSON.stringify(value, (_, each) =>
		each !== null && typeof each === "object" && !Array.isArray(each)
			? Object.fromEntries(Object.entries(each).sort())
			: each,
	);
}
