import { UsageError } from "../errors.ts";

/**
 * The schema that this program reads and writes, the same number for both databases. Raise it with every change of a
 * table, and bring what is stored along: a program of another number keeps its hands off. Smaller numbers belong to
 * tables of before the first release; programs of that time know none as large as this, and keep theirs off, too.
 */
export const SCHEMA_VERSION = 13;

/** `where`: the store, or the database, as its owner would call it. */
export function requireVersion(stored: number, where: string): void {
	if (stored === SCHEMA_VERSION) return;
	const versions = `its tables are of version ${stored}, this program's of version ${SCHEMA_VERSION}`;
	if (stored > SCHEMA_VERSION) {
		throw new UsageError(
			`${where} was written by a newer Paddock (${versions}): update this one, or choose another place by PADDOCK_HOME or PADDOCK_DATABASE_URL.`,
			"store_too_new",
		);
	}
	throw new UsageError(
		`${where} was written by an older Paddock (${versions}): go on with that one, choose another place by PADDOCK_HOME or PADDOCK_DATABASE_URL, or remove this one if nothing in it is needed.`,
		"store_too_old",
	);
}
