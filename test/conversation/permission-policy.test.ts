import { expect, test } from "vitest";
import type { PermissionAsk } from "../../src/agent/agent.ts";
import { alwaysPatterns, decideByRules, toRules } from "../../src/conversation/permission-policy.ts";
import type { PermissionRule } from "../../src/model/permission.ts";

const ask = (tool: string, patterns: string[], always: string[] = []): PermissionAsk => ({
	...{ kind: "permission", id: "per_1", sessionId: "ses", isChild: false, input: {} },
	...{ tool, patterns, always },
});
const rule = (tool: string, pattern: string, action: PermissionRule["action"]): PermissionRule => ({
	tool,
	pattern,
	action,
});

test("the last rule that fits decides, and the strictest of several patterns counts", () => {
	const rules = [rule("*", "*", "allow"), rule("bash", "git *", "ask"), rule("bash", "rm *", "deny")];
	expect(decideByRules(rules, ask("bash", ["ls"]))).toMatchObject({ behavior: "allow", by: "rule" });
	expect(decideByRules(rules, ask("bash", ["git push"]))).toBe("ask");
	expect(decideByRules(rules, ask("bash", ["git"]))).toBe("ask");
	expect(decideByRules(rules, ask("bash", ["ls", "rm -rf /"]))).toMatchObject({
		behavior: "deny",
		by: "rule",
	});
	expect(decideByRules([rule("edit", "src/*", "allow")], ask("edit", ["src/a.ts", "etc/b"]))).toBe(null);
});

test("what looks like an expression is taken for itself", () => {
	expect(decideByRules([rule("bash", "echo (a|b).+", "deny")], ask("bash", ["echo aXX"]))).toBe(null);
	expect(decideByRules([rule("bash", "a\\*", "deny")], ask("bash", ["a\\b"]))).toMatchObject({
		behavior: "deny",
	});
});

test("a command over several lines is one command", () => {
	expect(decideByRules([rule("bash", "ls*", "allow")], ask("bash", ["ls\nrm x"]))).toMatchObject({
		behavior: "allow",
	});
});

test("always means what the agent offers, or else what was asked", () => {
	expect(alwaysPatterns(ask("bash", ["git push origin"], ["git push *"]))).toEqual(["git push *"]);
	expect(alwaysPatterns(ask("edit", ["a.ts"]))).toEqual(["a.ts"]);
	expect(toRules("edit", ["a.ts"])).toEqual([rule("edit", "a.ts", "allow")]);
});
