import type { Backend, Sandbox } from "../../../src/sandbox/sandbox.ts";

/** What a probe may use: the box it attacks from, a neighbour, and things on the host that must stay untouched. */
export interface Range {
	backend: Backend;
	box: Sandbox;
	neighbour: Sandbox;
	/** A variable only the host program has. */
	canary: string;
	/** A TCP server on the host's loopback. */
	hostPort: number;
	/** An abstract unix socket on the host. */
	abstractName: string;
}

export interface Finding {
	contained: boolean;
	seen: string;
}

export interface Probe {
	name: string;
	run(range: Range): Promise<Finding>;
}

/** Contained when the command's whole output matches. */
export function shell(name: string, command: string, expected: RegExp): Probe {
	return {
		name,
		run: async ({ box }) => {
			const { stdout, stderr, exitCode, signal } = await box.exec(command, { timeoutMs: 30_000 });
			const seen = `${stdout}${stderr}`.trim() || `(nothing, ${signal ?? `exit ${exitCode}`})`;
			return { contained: expected.test(seen), seen };
		},
	};
}

/** Contained when the command never says `forbidden`. */
export function never(name: string, command: string, forbidden: (range: Range) => string): Probe {
	return {
		name,
		run: async (range) => {
			const { stdout, stderr } = await range.box.exec(command, { timeoutMs: 30_000 });
			const secret = forbidden(range);
			return { contained: !`${stdout}${stderr}`.includes(secret), seen: `no ${secret.slice(0, 40)}` };
		},
	};
}
