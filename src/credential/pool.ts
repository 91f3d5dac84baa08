import { UsageError } from "../errors.ts";
import type { Credential } from "../model/credential.ts";
import type { Credentials } from "../store/credentials.ts";
import { type HeldCredential, type HoldClocks, holdCredential } from "./hold.ts";

/** Why one of the pool cannot be had while another might. */
const PASSED_OVER = new Set([
	...["credential_held", "credential_dead", "credential_quarantined", "unknown_credential"],
]);

/** Any one of the pool: the one with most room, of those the one that has rested longest. */
export async function holdFromPool(
	credentials: Credentials,
	pool: string,
	user: string,
	options: { clocks?: HoldClocks } = {},
): Promise<HeldCredential> {
	const members = (await credentials.list()).filter((credential) => credential.pool === pool);
	if (members.length === 0) throw new UsageError(`no credential is in the pool ${pool}`, "unknown_pool");
	const refusals: UsageError[] = [];
	for (const { label } of members.toSorted(byTurn)) {
		try {
			return await holdCredential(credentials, label, user, options);
		} catch (error) {
			if (!(error instanceof UsageError) || !PASSED_OVER.has(error.code)) throw error;
			refusals.push(error);
		}
	}
	// One that is in use now will be free; the dead stay dead, and what is quarantined waits for somebody to look.
	if (refusals.some(({ code }) => code === "credential_held"))
		throw new UsageError(`every credential of the pool ${pool} is in use`, "credential_held");
	throw new UsageError(`every credential of the pool ${pool} is dead or quarantined`, "credential_dead");
}

function byTurn(one: Credential, other: Credential): number {
	return (
		Number(one.state === "limited") - Number(other.state === "limited") ||
		one.holders.length / one.capacity - other.holders.length / other.capacity ||
		(one.lastUsedAt ?? 0) - (other.lastUsedAt ?? 0)
	);
}
