import { afterAll, beforeAll } from "vitest";
import { openE2bProvider } from "../../src/sandbox/e2b.ts";
import { missingForE2b, type StandInE2b, startE2b } from "../fakes/e2b.ts";
import { conformance } from "./conformance.ts";

const missing = missingForE2b();
let service: StandInE2b;

beforeAll(async () => {
	if (missing === null) service = await startE2b();
});
afterAll(async () => {
	if (missing === null) await service[Symbol.asyncDispose]();
});

// The official SDK and real processes, against a local stand-in of the E2B service: no account is at hand.
conformance({
	name: "e2b",
	isolated: true,
	missing: async () => missing,
	open: () => openE2bProvider({ env: service.env, warn: () => {} }),
});
