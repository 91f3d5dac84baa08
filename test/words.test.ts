import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/**
 * Words that lost against those of CONTEXT.md, and the folders or files of src/ where they belong to somebody else: a trainer's
 * format, a protocol, an engine. A word is added here when the last place that used it is clean.
 */
const LOST: Record<string, readonly string[]> = {
	// Rollout
	episode: ["openenv"],
	trajectory: ["export", "cli/export.ts"],
	trajectories: ["export", "cli/export.ts"],
	// Verify, reward
	grade: [],
	grader: [],
	grading: [],
	evaluate: [],
	evaluator: [],
	// Sandbox, backend
	SandboxProvider: [],
	flavour: [],
	"cached box": [],
	"grading sandbox": [],
	// Worker, door
	runner: [],
	executor: [],
	frontend: [],
	judgement: [],
	gatekeeper: [],
	keystore: [],
	// No name for a file or a thing
	helper: [],
	manager: [],
};

const ROOT = join(import.meta.dirname, "../src");
const files = readdirSync(ROOT, { recursive: true, encoding: "utf8" })
	.filter((path) => /\.(ts|tsx|js)$/.test(path) && path !== "policy/words.ts")
	.sort();

// `openRunner` and `runnerOf` are the word, too; `onUpgrade` is another than `grade`.
test.each(Object.entries(LOST))('nobody says "%s"', (word, theirs) => {
	const alone = new RegExp(`\\b${word}s?\\b`, "i");
	const inName = new RegExp(`[a-z]${word[0]!.toUpperCase()}${word.slice(1)}s?(?![a-z])`);
	const said = { test: (text: string) => alone.test(text) || inName.test(text) };
	const found = files
		.filter((path) => !theirs.some((place) => path === place || path.startsWith(`${place}/`)))
		.flatMap((path) => {
			const lines = readFileSync(join(ROOT, path), "utf8").split("\n");
			const inText = lines.flatMap((line, index) =>
				said.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
			);
			return said.test(path) ? [path, ...inText] : inText;
		});
	expect(found).toEqual([]);
});

test("every word that lost has a winner in CONTEXT.md, or is no name at all", () => {
	const winners = readFileSync(join(ROOT, "../CONTEXT.md"), "utf8");
	for (const word of [
		"episode",
		"trajectory",
		"grade",
		"evaluate",
		"executor",
		"frontend",
		"runner",
		"flavour",
	])
		expect(winners).toContain(word);
});
