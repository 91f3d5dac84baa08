import type { Failure } from "../model/failure.ts";

/** Why an agent was stopped from outside. */
export type Halt =
	| { type: "aborted" }
	| { type: "timeout" }
	| { type: "budget"; what: string }
	| { type: "failure"; failure: Failure };

/** Many may want an agent to stop; the first reason wins. */
export class HaltSwitch {
	readonly #controller = new AbortController();
	readonly #halted = Promise.withResolvers<null>();
	#reason: Halt | null = null;

	get signal(): AbortSignal {
		return this.#controller.signal;
	}

	/** Resolves once something wants the agent to stop. */
	get halted(): Promise<null> {
		return this.#halted.promise;
	}

	get reason(): Halt | null {
		return this.#reason;
	}

	halt(reason: Halt): void {
		this.#reason ??= reason;
		this.#controller.abort();
		this.#halted.resolve(null);
	}

	/** Halts when `signal` fires; its own reason may say why. */
	on(signal: AbortSignal, reason: Halt | ((why: unknown) => Halt)): Disposable {
		const fire = () => this.halt(typeof reason === "function" ? reason(signal.reason) : reason);
		if (signal.aborted) fire();
		else signal.addEventListener("abort", fire, { once: true });
		return { [Symbol.dispose]: () => signal.removeEventListener("abort", fire) };
	}
}
