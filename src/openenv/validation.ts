import type { z } from "zod";

/** One complaint in the shape that OpenEnv's callers know. */
export interface Complaint {
	type: string;
	loc: (string | number)[];
	msg: string;
	input: unknown;
}

/** Says what does not fit; the input is repeated only where it is short. */
export function toComplaints(error: z.ZodError, prefix: string[] = []): Complaint[] {
	return error.issues.slice(0, 20).flatMap((issue) => toComplaint(issue, prefix));
}

function toComplaint(issue: z.core.$ZodIssue, prefix: string[]): Complaint[] {
	const loc = [...prefix, ...issue.path.map((part) => (typeof part === "number" ? part : String(part)))];
	if (issue.code === "unrecognized_keys")
		return issue.keys.map((key) => ({
			type: "extra_forbidden",
			loc: [...loc, key],
			msg: "Extra inputs are not permitted",
			input: short((issue.input as Record<string, unknown> | undefined)?.[key]),
		}));
	const [type, msg] = classify(issue);
	return [{ type, loc, msg, input: short(issue.input) }];
}

function classify(issue: z.core.$ZodIssue): [type: string, msg: string] {
	if (issue.code === "invalid_type") {
		if (issue.input === undefined) return ["missing", "Field required"];
		return TYPES[issue.expected] ?? ["value_error", issue.message];
	}
	if (issue.code === "invalid_value") {
		const options = issue.values.map((value) => `'${String(value)}'`).join(" or ");
		return ["literal_error", `Input should be ${options}`];
	}
	if (issue.code === "too_big" && issue.origin === "string")
		return ["string_too_long", `String should have at most ${issue.maximum} characters`];
	if (issue.code === "too_small" && issue.inclusive === false)
		return ["greater_than", `Input should be greater than ${issue.minimum}`];
	if (issue.code === "too_small")
		return ["greater_than_equal", `Input should be greater than or equal to ${issue.minimum}`];
	return ["value_error", issue.message];
}

const TYPES: Record<string, [type: string, msg: string]> = {
	string: ["string_type", "Input should be a valid string"],
	int: ["int_type", "Input should be a valid integer"],
	number: ["float_type", "Input should be a valid number"],
	record: ["dict_type", "Input should be a valid dictionary"],
	object: ["dict_type", "Input should be a valid dictionary"],
};

function short(input: unknown): unknown {
	if (typeof input === "string") return input.slice(0, 200);
	if (input === undefined || (typeof input === "object" && input !== null)) return null;
	return input;
}
