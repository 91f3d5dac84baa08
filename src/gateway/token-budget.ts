import type { Budget } from "../model/task.ts";

export interface TokenCounts {
	promptTokens: number;
	completionTokens: number;
}

/** What one call may spend. Disposed of without being settled, it has spent nothing. */
export interface Reservation extends Disposable {
	/** Null: as much as it likes. */
	readonly outputTokens: number | null;
	settle(spent: TokenCounts): void;
}

/**
 * A rollout's tokens: spent, or reserved by calls under way. A call gets what it wishes for if that is left; if not, it waits
 * until the others have settled, and alone takes what there is. So calls side by side never spend the same tokens.
 */
export class TokenBudget {
	readonly spent: TokenCounts = { promptTokens: 0, completionTokens: 0 };
	readonly #limits: { input: number; output: number; total: number };
	readonly #reserved: TokenCounts = { promptTokens: 0, completionTokens: 0 };
	#underWay = 0;
	readonly #waiting = new Set<() => void>();

	constructor({ maxInputTokens, maxOutputTokens, maxTotalTokens }: Budget) {
		this.#limits = {
			input: maxInputTokens ?? Number.POSITIVE_INFINITY,
			output: maxOutputTokens ?? Number.POSITIVE_INFINITY,
			total: maxTotalTokens ?? Number.POSITIVE_INFINITY,
		};
	}

	/** Calls that wait for others to settle. */
	get waiting(): number {
		return this.#waiting.size;
	}

	/** What is used up, if anything. */
	get exhausted(): string | null {
		const { promptTokens, completionTokens } = this.spent;
		if (promptTokens >= this.#limits.input) return "input tokens";
		if (completionTokens >= this.#limits.output) return "output tokens";
		return promptTokens + completionTokens >= this.#limits.total ? "total tokens" : null;
	}

	/** Null when there is nothing left, or nobody wants it any more. The prompt is a guess until the engine has counted it. */
	async reserve(wish: TokenCounts, signal: AbortSignal): Promise<Reservation | null> {
		while (this.exhausted === null && !signal.aborted) {
			if (this.#underWay === 0 || this.#fits(wish)) return this.#take(wish);
			await this.#change(signal);
		}
		return null;
	}

	#fits({ promptTokens, completionTokens }: TokenCounts): boolean {
		const prompt = this.spent.promptTokens + this.#reserved.promptTokens + promptTokens;
		const completion = this.spent.completionTokens + this.#reserved.completionTokens + completionTokens;
		const { input, output, total } = this.#limits;
		return prompt <= input && completion <= output && prompt + completion <= total;
	}

	#take({ promptTokens, completionTokens }: TokenCounts): Reservation {
		const { output, total } = this.#limits;
		const left = Math.min(
			output - this.spent.completionTokens,
			total - this.spent.promptTokens - this.spent.completionTokens,
		);
		const outputTokens = Math.min(completionTokens, Math.max(1, left));
		this.#reserve(promptTokens, outputTokens, 1);
		let isSettled = false;
		const settle = (spent: TokenCounts) => {
			if (isSettled) return;
			isSettled = true;
			this.spent.promptTokens += spent.promptTokens;
			this.spent.completionTokens += spent.completionTokens;
			this.#reserve(-promptTokens, -outputTokens, -1);
			for (const look of this.#waiting) look();
		};
		return {
			outputTokens: Number.isFinite(left) ? outputTokens : null,
			settle,
			[Symbol.dispose]: () => settle({ promptTokens: 0, completionTokens: 0 }),
		};
	}

	#reserve(promptTokens: number, completionTokens: number, calls: number): void {
		this.#underWay += calls;
		this.#reserved.promptTokens += promptTokens;
		this.#reserved.completionTokens += completionTokens;
		// An endless wish taken back leaves no number.
		if (this.#underWay === 0) this.#reserved.completionTokens = 0;
	}

	/** Something was settled, or nobody waits any more. */
	async #change(signal: AbortSignal): Promise<void> {
		const changed = Promise.withResolvers<void>();
		this.#waiting.add(changed.resolve);
		signal.addEventListener("abort", () => changed.resolve(), { once: true });
		await changed.promise;
		this.#waiting.delete(changed.resolve);
	}
}
