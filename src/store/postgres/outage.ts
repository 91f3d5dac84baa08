import { isOutage, messageOf, OutageError } from "../../errors.ts";

/**
 * PostgreSQL's classes of trouble that passes: connections, resources, an operator's hand, a conflict that was undone,
 * a transaction that stood still for too long.
 */
const PASSING_STATES = /^(08|53|57P|40001|40P01|25006|25P03)/;
/** What the driver says, without a code, of a query that got no answer in time. */
const READ_TIMEOUT = "Query read timeout";
const PASSING_WORDS =
	/^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Query read timeout)/;

/** The same error, said to be an outage where it is one: nothing is wrong with what was asked. */
export function asOutage(error: unknown): unknown {
	return isPassing(error) ? new OutageError(messageOf(error), { cause: error }) : error;
}

/** Runs what talks to PostgreSQL; an outage leaves as one. */
export async function reaching<T>(act: () => Promise<T>): Promise<T> {
	try {
		return await act();
	} catch (error) {
		throw asOutage(error);
	}
}

/** A connection that did not answer once is not asked again. */
export function isSilent(error: unknown): boolean {
	return messageOf(error) === READ_TIMEOUT;
}

function isPassing(error: unknown): boolean {
	if (!(error instanceof Error)) return false;
	const { code } = error as { code?: unknown };
	if (typeof code === "string" && PASSING_STATES.test(code)) return true;
	return isOutage(error) || PASSING_WORDS.test(error.message);
}
