import { Refusal } from "../agent-side/refusal.ts";
import { isObject, type JsonObject } from "./protocol.ts";

/**
 * What a box may say in a request, as rules that are put together like types. What no rule names does not go upstream:
 * engines and providers have fields that reach other machines, other callers' data or the engine itself, and more with
 * every version. A value that needs no change is handed on as it is, not copied.
 */
export type Rule = (value: unknown, path: string, leftOut: LeftOut) => unknown;

/** A rule's word for "not of my kind". */
const UNFIT = Symbol("unfit");

const MAX_NAMES = 32;
const MAX_NAME = 100;

/** The fields that were left out, for the record. A box chooses their names, so they are few and short. */
export class LeftOut {
	readonly #paths = new Set<string>();

	add(path: string): void {
		if (this.#paths.size < MAX_NAMES) this.#paths.add(path.slice(0, MAX_NAME));
	}

	toPatch(): JsonObject {
		return Object.fromEntries([...this.#paths].map((path) => [path, null]));
	}
}

const kind =
	(type: "string" | "number" | "boolean"): Rule =>
	(value) =>
		typeof value === type ? value : UNFIT;

export const text = kind("string");
export const number = kind("number");
export const flag = kind("boolean");
export const nothing: Rule = (value) => (value === null ? value : UNFIT);
export const anything: Rule = (value) => value;

/** The first rule that the value is of the kind of. */
export function either(...rules: Rule[]): Rule {
	return (value, path, leftOut) => {
		for (const rule of rules) {
			const kept = rule(value, path, leftOut);
			if (kept !== UNFIT) return kept;
		}
		return UNFIT;
	};
}

/** Nothing may be missing from a list unnoticed: an entry that does not fit is refused. */
export function list(rule: Rule): Rule {
	return (value, path, leftOut) => {
		if (!Array.isArray(value)) return UNFIT;
		let copy: unknown[] | null = null;
		for (let i = 0; i < value.length; i += 1) {
			const kept = rule(value[i], `${path}[]`, leftOut);
			if (kept === UNFIT) throw new Refusal(400, "bad_request", `${path}[${i}] is not what belongs there`);
			if (kept === value[i]) continue;
			copy ??= [...value];
			copy[i] = kept;
		}
		return copy ?? value;
	};
}

export function object(fields: Readonly<Record<string, Rule>>): Rule {
	return (value, path, leftOut) => {
		if (!isObject(value)) return UNFIT;
		let copy: JsonObject | null = null;
		for (const name of Object.keys(value)) {
			const inner = path === "" ? name : `${path}.${name}`;
			const kept = Object.hasOwn(fields, name) ? fields[name]!(value[name], inner, leftOut) : UNFIT;
			if (kept === value[name]) continue;
			copy ??= { ...value };
			if (kept === UNFIT) {
				leftOut.add(inner);
				delete copy[name];
			} else copy[name] = kept;
		}
		return copy ?? value;
	};
}

/** Objects that say by their `type` what they are; one that is not known is refused, since it may be anything. */
export function typed(rules: Readonly<Record<string, Rule>>, fallback: Rule = unknownType): Rule {
	return (value, path, leftOut) => {
		if (!isObject(value)) return UNFIT;
		const type = typeof value.type === "string" ? value.type : "";
		return (Object.hasOwn(rules, type) ? rules[type]! : fallback)(value, path, leftOut);
	};
}

const unknownType: Rule = (value, path) => {
	const type = isObject(value) ? JSON.stringify(value.type ?? null).slice(0, 50) : "";
	throw new Refusal(400, "bad_request", `${path} of the type ${type} is not taken here`);
};

/** Data travels inside the request; an address would be fetched by the engine, past the box's own network. */
export const inlineData: Rule = (value) => {
	if (typeof value !== "string") return UNFIT;
	return /^\s*data:/i.test(value) ? value : reaches("content at an address");
};

/** A JSON schema; its references stay inside it. */
export const schema: Rule = (value) => {
	const waiting = [value];
	while (waiting.length > 0) {
		const next = waiting.pop();
		if (typeof next !== "object" || next === null) continue;
		if ("$ref" in next && typeof next.$ref === "string" && !next.$ref.startsWith("#"))
			reaches("a schema at an address");
		for (const inner of Object.values(next)) if (typeof inner === "object") waiting.push(inner);
	}
	return value;
};

export function reaches(what: string): never {
	const message = `${what} would reach the network by way of the model; send data instead of addresses`;
	throw new Refusal(400, "remote_content", message);
}
