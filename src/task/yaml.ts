import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { UsageError } from "../errors.ts";
import { unknownKey } from "../model/unknown-keys.ts";
import { keysAt, TaskYaml } from "./schema.ts";

/** Reads a task.yaml. Everything that is wrong with it is said, each in one line that begins with file, line and column. */
export function parseTaskYaml(text: string, file: string): TaskYaml {
	const positions = new LineCounter();
	const document = parseDocument(text, { lineCounter: positions, prettyErrors: false, uniqueKeys: true });
	const refuse = (code: string, faults: [offset: number, message: string][]): never => {
		const told = faults.map(([offset, message]) => {
			const { line, col } = positions.linePos(offset);
			return `${file}:${Math.max(1, line)}:${Math.max(1, col)}: ${message}`;
		});
		throw new UsageError([...new Set(told)].join("\n"), code);
	};
	// The first mistake often makes the parser see more of them.
	const broken = document.errors[0];
	if (broken)
		refuse("task_yaml_malformed", [[broken.pos[0], `not valid YAML: ${firstLine(broken.message)}`]]);
	if (!isMap(document.contents))
		refuse("task_yaml_invalid", [[0, "a task is a map of keys such as instruction and verify."]]);

	const parsed = TaskYaml.safeParse(
		toPlain(document, (message) => refuse("task_yaml_malformed", [[0, message]])),
	);
	if (parsed.success) return parsed.data;
	const faults = parsed.error.issues.flatMap((issue) => describe(deepest(issue)));
	return refuse(
		faults[0]!.code,
		faults.map((fault) => [offsetOf(document, fault.path), fault.message]),
	);
}

interface Fault {
	path: PropertyKey[];
	message: string;
	code: string;
}

function describe(issue: z.core.$ZodIssue): Fault[] {
	if (issue.code === "unrecognized_keys") return issue.keys.map((key) => unheardOf(key, issue.path));
	const where = issue.path.map(String).join(".");
	const message = firstLine(issue.message).replace(/^Invalid input: /, "");
	const isMissing = message.endsWith("received undefined");
	const fault = isMissing ? `${where} is missing.` : `${where}: ${message}.`;
	return [{ path: issue.path, message: fault, code: "task_yaml_invalid" }];
}

function unheardOf(key: string, path: PropertyKey[]): Fault {
	return { path: [...path, key], message: unknownKey(key, keysAt(path)), code: "task_unknown_key" };
}

/** Of a union's complaints, the one of the variant that was nearly met. */
function deepest(issue: z.core.$ZodIssue): z.core.$ZodIssue {
	if (issue.code !== "invalid_union" || issue.errors.length === 0) return issue;
	const byFewest = [...issue.errors].sort((a, b) => weight(a) - weight(b));
	const nearly = (byFewest[0] ?? []).map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] }));
	const inner = nearly.find(isUnheardOf) ?? nearly[0];
	return inner === undefined ? issue : deepest(inner);
}

/** A key that no variant has tells more than what is missing because of it. */
function isUnheardOf(issue: z.core.$ZodIssue): boolean {
	return issue.code === "unrecognized_keys" && issue.keys.some((key) => !keysAt(issue.path).includes(key));
}

/** A variant that only lacks depth is nearer than one of another type; fewer complaints are nearer than more. */
function weight(issues: z.core.$ZodIssue[]): number {
	const isOtherType = issues.some((issue) => issue.code === "invalid_type" && issue.path.length === 0);
	return issues.length + (isOtherType ? 100 : 0);
}

/** Where a path begins in the text: at the key when there is one, else at the nearest thing around it. */
function offsetOf(document: Document, path: readonly PropertyKey[]): number {
	for (let length = path.length; length > 0; length--) {
		const parent = length === 1 ? document.contents : document.getIn(path.slice(0, length - 1), true);
		const last = path[length - 1];
		if (isMap(parent)) {
			const pair = parent.items.find((item) => isScalar(item.key) && String(item.key.value) === String(last));
			if (pair && isScalar(pair.key)) return pair.key.range?.[0] ?? 0;
		}
		const node = document.getIn(path.slice(0, length), true);
		if (isNode(node)) return node.range?.[0] ?? 0;
	}
	return 0;
}

/** Aliases are counted, so a few lines cannot unfold into gigabytes. */
function toPlain(document: Document, complain: (message: string) => never): unknown {
	try {
		return document.toJS({ maxAliasCount: 100 });
	} catch (error) {
		return complain(`not valid YAML: ${firstLine((error as Error).message)}.`);
	}
}

function firstLine(message: string): string {
	return message.split("\n", 1)[0]!.replace(/\.$/, "");
}
