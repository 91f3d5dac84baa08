import { afterAll, beforeAll } from "vitest";
import { openDockerBackend } from "../../src/sandbox/docker/docker.ts";
import { missingForEngine, startEngine, type TestEngine } from "../fixtures/docker-engine.ts";
import { conformance } from "./conformance.ts";

const missing = missingForEngine("podman");
let engine: TestEngine;

beforeAll(async () => {
	if (missing === null) engine = await startEngine("podman");
});
afterAll(async () => {
	if (missing === null) await engine[Symbol.asyncDispose]();
});

// The same backend, with Podman behind the same interface.
conformance({
	name: "docker",
	isolated: true,
	missing: async () => missing,
	open: () => openDockerBackend({ env: engine.env }),
});
