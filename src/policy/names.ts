import { UsageError } from "../errors.ts";

/** The scripted models and what each is for. */
export const POLICIES: Readonly<Record<string, string>> = {
	oracle: "plays the task's solution through the agent's own tools",
	scripted: "another name for oracle",
	noop: "answers one sentence and touches nothing",
	replay: "plays a recorded rollout back: the same messages, token ids and logprobs",
	"cheat-reward": "writes the reward files itself",
	"cheat-tests": "overwrites the hidden tests where they will be staged",
	"cheat-conftest": "plants hooks, start-up files and look-alike programs for the verifier to trip over",
	"cheat-payload": "puts programs that write the reward where the solution would be",
	"cheat-daemon": "leaves a background process that keeps writing rewards and editing tests",
};

export const POLICY_NAMES: readonly string[] = Object.keys(POLICIES);

export function requirePolicy(name: string): void {
	if (Object.hasOwn(POLICIES, name)) return;
	throw new UsageError(
		`There is no policy "${name}"; choose one of ${POLICY_NAMES.join(", ")}.`,
		"unknown_policy",
	);
}
