import { messageOf, UsageError } from "../errors.ts";
import type { Credential } from "../model/credential.ts";
import type { Credentials } from "../store/credentials.ts";

const LOOKS_PER_PERIOD = 10;

/**
 * Looks at every credential that nobody has looked at for so long, one after the other. Several processes may do this: what
 * one has looked at is no longer due for the others.
 */
export function verifyRegularly(
	credentials: Credentials,
	verify: (label: string) => Promise<Credential>,
	{ hours, warn }: { hours: number; warn: (message: string) => void },
): Disposable {
	const periodMs = hours * 3_600_000;
	let isLooking = false;
	const look = async () => {
		if (isLooking) return;
		isLooking = true;
		try {
			for (const one of await credentials.list()) if (isDue(one, periodMs)) await verifyOne(one.label);
		} catch (error) {
			warn(`credentials could not be verified: ${messageOf(error)}`);
		} finally {
			isLooking = false;
		}
	};
	const verifyOne = async (label: string) => {
		try {
			const { state, reason } = await verify(label);
			if (state !== "alive") warn(`credential ${label} is ${state}: ${reason}`);
		} catch (error) {
			// In use, or gone: the next look finds it.
			if (!(error instanceof UsageError)) throw error;
		}
	};
	const timer = setInterval(() => void look(), periodMs / LOOKS_PER_PERIOD).unref();
	return { [Symbol.dispose]: () => clearInterval(timer) };
}

function isDue({ state, lastVerifiedAt, holders }: Credential, periodMs: number): boolean {
	if (state === "dead" || holders.length > 0) return false;
	return lastVerifiedAt === null || lastVerifiedAt < Date.now() - periodMs;
}
