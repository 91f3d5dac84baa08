import { createHash } from "node:crypto";
import type { Submission } from "./store.ts";
import type { SealingKey } from "./vault/seal.ts";

/**
 * What a submission asks for, in a few bytes: alike for a repeat, whose ids and times are new, and different for
 * anything else. Keyed, since the request may hold a caller's key, of which nothing may be left for guessing.
 */
export function fingerprint(submission: Submission, key: SealingKey): string {
	const { rollouts, groups = [], batch } = submission;
	// The rollouts of a group share their request, the requests of a batch their tasks: each is read once.
	const digests = new Map<object, string>();
	const digestOf = (shared: object, content: () => object): string => {
		const digest = digests.get(shared) ?? createHash("sha256").update(canonical(content())).digest("hex");
		digests.set(shared, digest);
		return digest;
	};
	const asked = {
		rollouts: rollouts.map(({ request }) =>
			digestOf(request, () => ({ ...request, task: digestOf(request.task, () => request.task) })),
		),
		groups: groups.map((group) => group.n),
		batch: batch?.labels ?? null,
	};
	return key.fingerprint(canonical(asked));
}

/** The same text whatever order the fields were sent in. */
function canonical(value: object): string {
	return JSON.stringify(value, (_name, item: unknown) => {
		if (item === null || typeof item !== "object" || Array.isArray(item)) return item;
		return Object.fromEntries(Object.entries(item).toSorted(([one], [other]) => (one < other ? -1 : 1)));
	});
}
