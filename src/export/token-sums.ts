import type { BreakReason, Certificate, TokenSums } from "../model/sample.ts";

/** Adds up certificates one by one. */
export class TokenTally {
	#rollouts = 0;
	#trainable = 0;
	#samples = 0;
	#trainedTokens = 0;
	#mainTokens = 0;
	#tokensToTrainOver = 0;
	#wentOn = 0;
	#stitched = 0;
	readonly #plain: Record<string, number> = {};
	readonly #breaks: Partial<Record<BreakReason, number>> = {};

	add(certificate: Certificate): void {
		const { continuity, trainedTokens } = certificate;
		this.#rollouts++;
		if (certificate.trainable) this.#trainable++;
		this.#samples += continuity.samples;
		this.#trainedTokens += trainedTokens;
		this.#mainTokens += Math.round(certificate.mainShare * trainedTokens);
		this.#tokensToTrainOver += certificate.tokensToTrainOver;
		this.#wentOn += continuity.wentOn;
		this.#stitched += continuity.stitched;
		addTo(this.#plain, continuity.plain);
		addTo(this.#breaks, continuity.breaks);
	}

	sums(): TokenSums {
		const broke = sum(Object.values(this.#breaks));
		return {
			rollouts: this.#rollouts,
			trainable: this.#trainable,
			samples: this.#samples,
			trainedTokens: this.#trainedTokens,
			tokensToTrainOver: this.#tokensToTrainOver,
			mainShare: share(this.#mainTokens, this.#trainedTokens),
			continuity: share(this.#wentOn, this.#wentOn + broke),
			stitched: this.#stitched,
			plain: this.#plain,
			breaks: this.#breaks,
		};
	}
}

function addTo(total: Record<string, number>, counts: Record<string, number>): void {
	for (const [name, count] of Object.entries(counts)) total[name] = (total[name] ?? 0) + count;
}

function share(part: number, whole: number): number | null {
	return whole === 0 ? null : part / whole;
}

function sum(numbers: readonly number[]): number {
	return numbers.reduce((total, number) => total + number, 0);
}
