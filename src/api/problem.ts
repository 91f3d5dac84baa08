import { z } from "zod";

/** Every error over HTTP, as application/problem+json. `code` is stable; `detail` is for people. */
export const Problem = z
	.object({
		type: z.string(),
		title: z.string(),
		status: z.int(),
		code: z.string().describe("Stable, snake_case; every code is listed in docs/errors.md"),
		detail: z.string(),
		issues: z
			.array(z.object({ path: z.string(), message: z.string() }))
			.optional()
			.describe("Where the request is wrong"),
	})
	.meta({ id: "Problem" });
export type Problem = z.infer<typeof Problem>;
