import { UsageError } from "../errors.ts";
import { isReserved } from "../model/intervention.ts";

/** What a person did must not look as if nobody had done it. */
export function requireSpeaker(by: string): void {
	if (isReserved(by))
		throw new UsageError(
			`by: ${JSON.stringify(by)} stands for decisions that no person made; use a name`,
			"name_reserved",
		);
}
