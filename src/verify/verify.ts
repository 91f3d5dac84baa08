import type { CommandResult, toStart } from "../model/event.ts";
import type { Task } from "../model/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

export interface Verdict {
	reward: number | null;
	results: CommandResult[];
	/** What the verifier left in its own folder, for people to read. */
	stdout: string;
	stderr: string;
}

/**
 * Decides how well it went, in a clean box. A finite number the verifier wrote (`reward.json`, else `reward.txt`)
 * wins; otherwise passed/total of the verify commands; otherwise null.
 */
export type Verify = (
	task: Task,
	clean: Sandbox,
	options: {
		signal: AbortSignal;
		onStart?: (start: ReturnType<typeof toStart>) => void;
		onResult: (result: CommandResult) => void;
	},
) => Promise<Verdict>;
