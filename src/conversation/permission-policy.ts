import type { PermissionAsk, PermissionDecision } from "../agent/agent.ts";
import type { PermissionRule } from "../model/permission.ts";

/** For each pattern of the ask the last rule that fits decides, and the strictest of them counts; null when one has none. */
export function decideByRules(
	rules: readonly PermissionRule[],
	ask: PermissionAsk,
): PermissionDecision | "ask" | null {
	const patterns = ask.patterns.length === 0 ? [""] : ask.patterns;
	const decisions = patterns.map((pattern) => rules.findLast((rule) => fits(rule, ask.tool, pattern)));
	const denied = decisions.find((rule) => rule?.action === "deny");
	if (denied !== undefined)
		return { behavior: "deny", by: "rule", message: denied.message ?? refusalBy(denied) };
	if (decisions.some((rule) => rule?.action === "ask")) return "ask";
	if (decisions.every((rule) => rule?.action === "allow")) return { behavior: "allow", by: "rule" };
	return null;
}

/** What OpenCode itself would allow from now on. */
export function alwaysPatterns({ always, patterns }: PermissionAsk): string[] {
	return always.length > 0 ? always : patterns;
}

/** What somebody allowed for always, as rules of ours. */
export function toRules(tool: string, patterns: readonly string[]): PermissionRule[] {
	return patterns.map((pattern) => ({ tool, pattern, action: "allow" }));
}

function refusalBy(rule: PermissionRule): string {
	return `A rule does not permit ${rule.tool} with ${rule.pattern}. Go on without it.`;
}

function fits(rule: PermissionRule, tool: string, pattern: string): boolean {
	return isLike(rule.tool, tool) && isLike(rule.pattern, pattern);
}

/** `*` stands for anything, `?` for one character; everything else for itself. A trailing ` *` may be absent, as in OpenCode. */
function isLike(glob: string, value: string): boolean {
	const source = glob
		.replace(/[.+^${}()|[\]\\]/g, "\\$&")
		.replace(/\*+/g, "[^]*")
		.replace(/\?/g, "[^]");
	const lenient = glob.endsWith(" *") ? source.replace(/ \[\^\]\*$/, "( [^]*)?") : source;
	return new RegExp(`^${lenient}$`).test(value);
}
