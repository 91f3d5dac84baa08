/** A word that is not in the question: whoever only repeats what it was asked does not pass. */
const CAPITALS = { France: "Paris", Japan: "Tokyo", Egypt: "Cairo", Peru: "Lima" } as const;

/** What a model is asked to show that it is there. */
export interface Question {
	question: string;
	answer: string;
}

export function newQuestion(): Question {
	const names = Object.keys(CAPITALS) as (keyof typeof CAPITALS)[];
	const country = names[Math.floor(Math.random() * names.length)]!;
	return {
		question: `What is the capital of ${country}? Answer with its name alone.`,
		answer: CAPITALS[country],
	};
}
