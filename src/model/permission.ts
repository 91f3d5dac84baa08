import { z } from "zod";

/** One rule about what an agent may do without asking anybody. */
export const PermissionRule = z
	.strictObject({
		tool: z.string().min(1).max(200).describe("bash, edit, webfetch, … or * for any"),
		pattern: z
			.string()
			.max(2_000)
			.default("*")
			.describe("What the tool is used on: a command, a path; * stands for anything, ? for one character"),
		action: z.enum(["allow", "deny", "ask"]),
		message: z.string().max(2_000).optional().describe("What the model reads when this rule denies"),
	})
	.meta({ id: "PermissionRule" });
export type PermissionRule = z.infer<typeof PermissionRule>;
