import { Refusal } from "./refusal.ts";

export interface JsonLimits {
	/** Lists and objects inside each other. */
	maxDepth: number;
	/** Values, however small: each takes far more memory than the two bytes it costs to send. */
	maxValues: number;
}

/**
 * Measures JSON while it arrives, byte by byte and without understanding it, so that nothing is parsed that would not fit
 * into memory. Text that is not JSON is measured as well; the parser says so afterwards.
 */
export class JsonMeter {
	readonly #limits: JsonLimits;
	#depth = 0;
	#values = 1;
	#isInString = false;
	#isEscaped = false;

	constructor(limits: JsonLimits) {
		this.#limits = limits;
	}

	/** Throws a Refusal as soon as there is too much. */
	push(chunk: Uint8Array): void {
		const { maxDepth, maxValues } = this.#limits;
		let [depth, values, isInString, isEscaped] = [
			this.#depth,
			this.#values,
			this.#isInString,
			this.#isEscaped,
		];
		for (let at = 0; at < chunk.length; at += 1) {
			const byte = chunk[at]!;
			if (isInString) {
				if (isEscaped) isEscaped = false;
				else if (byte === BACKSLASH) isEscaped = true;
				else if (byte === QUOTE) isInString = false;
			} else if (byte === QUOTE) isInString = true;
			else if (byte === COMMA) values += 1;
			else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
				depth += 1;
				values += 1;
				if (depth > maxDepth) throw tooComplex(`deeper than ${maxDepth} levels`);
			} else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
		}
		if (values > maxValues) throw tooComplex(`of more than ${maxValues} values`);
		this.#depth = depth;
		this.#values = values;
		this.#isInString = isInString;
		this.#isEscaped = isEscaped;
	}
}

function tooComplex(how: string): Refusal {
	return new Refusal(400, "bad_request", `the request is ${how}`);
}

const QUOTE = 34;
const COMMA = 44;
const OPEN_BRACKET = 91;
const BACKSLASH = 92;
const CLOSE_BRACKET = 93;
const OPEN_BRACE = 123;
const CLOSE_BRACE = 125;
