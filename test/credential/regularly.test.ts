import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { verifyRegularly } from "../../src/credential/regularly.ts";
import { OutageError, UsageError } from "../../src/errors.ts";
import type { Credential } from "../../src/model/credential.ts";
import type { Credentials } from "../../src/store/credentials.ts";

const HOUR = 3_600_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function credential(label: string, more: Partial<Credential> = {}): Credential {
	return {
		...{ id: label, label, kind: "api-key", endpoint: null, login: null, pool: null, capacity: 1 },
		...{ state: "unknown", reason: null, fingerprint: "", version: 1, createdAt: 0, updatedAt: 0 },
		...{ lastUsedAt: null, lastVerifiedAt: null, holders: [], planted: null, quarantine: [], ...more },
	};
}

/** What is stored, who was asked, and what was said. */
function openStage(stored: Credential[]) {
	const asked: string[] = [];
	const warnings: string[] = [];
	const credentials = { list: async () => stored } as unknown as Credentials;
	return { asked, warnings, credentials, warn: (message: string) => void warnings.push(message) };
}

test("what nobody has looked at for so long is looked at; the dead and those in use are left alone", async () => {
	const now = Date.now();
	const stage = openStage([
		credential("never"),
		credential("long-ago", { lastVerifiedAt: now - 7 * HOUR }),
		credential("lately", { lastVerifiedAt: now - HOUR }),
		credential("dead", { state: "dead" }),
		credential("in-use", { holders: [{ holder: "ro", expiresAt: now + HOUR }] }),
	]);
	const verify = async (label: string) => {
		stage.asked.push(label);
		return credential(label, { state: label === "never" ? "limited" : "alive", reason: "429" });
	};
	using _ = verifyRegularly(stage.credentials, verify, { hours: 6, warn: stage.warn });
	expect(stage.asked).toEqual([]);
	await vi.advanceTimersByTimeAsync(0.6 * HOUR);
	expect(stage.asked).toEqual(["never", "long-ago"]);
	expect(stage.warnings).toEqual(["credential never is limited: 429"]);
});

test("one that is taken in between, and a store that is away, end nothing; what is disposed looks no more", async () => {
	const stage = openStage([credential("a"), credential("b")]);
	const verify = async (label: string) => {
		stage.asked.push(label);
		if (label === "a") throw new UsageError("in use", "credential_held");
		throw new OutageError("away");
	};
	const looking = verifyRegularly(stage.credentials, verify, { hours: 1, warn: stage.warn });
	await vi.advanceTimersByTimeAsync(0.1 * HOUR);
	expect(stage.asked).toEqual(["a", "b"]);
	expect(stage.warnings).toEqual(["credentials could not be verified: away"]);
	await vi.advanceTimersByTimeAsync(0.1 * HOUR);
	expect(stage.asked).toEqual(["a", "b", "a", "b"]);
	looking[Symbol.dispose]();
	await vi.advanceTimersByTimeAsync(HOUR);
	expect(stage.asked).toHaveLength(4);
});
