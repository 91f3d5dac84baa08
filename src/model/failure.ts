import { z } from "zod";

/** Where a failure crossed into ours. */
export const Boundary = z
	.enum(["task", "sandbox", "agent", "gateway", "provider", "verifier"])
	.meta({ id: "Boundary" });
export type Boundary = z.infer<typeof Boundary>;

export const Failure = z
	.object({
		boundary: Boundary,
		code: z.string().describe("Stable, snake_case; every code is listed in docs/errors.md"),
		message: z.string(),
		retryable: z
			.boolean()
			.describe("True only for infrastructure: the same rollout may well succeed next time"),
	})
	.meta({ id: "Failure" });
export type Failure = z.infer<typeof Failure>;

/** How a rollout ended. Only `failed` carries a Failure; a reward of 0 is `completed`. */
export const Outcome = z
	.enum(["completed", "timeout", "aborted", "budget", "failed"])
	.meta({ id: "Outcome" });
export type Outcome = z.infer<typeof Outcome>;
