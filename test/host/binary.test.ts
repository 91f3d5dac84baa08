import { expect, test } from "vitest";
import { agentVersion, findAgentBinary, packagesFor } from "../../src/host/binary.ts";

const KINDS = [
	{ arch: "x64", musl: false, avx2: true, names: ["opencode-linux-x64", "opencode-linux-x64-baseline"] },
	{ arch: "x64", musl: false, avx2: false, names: ["opencode-linux-x64-baseline"] },
	{
		...{ arch: "x64", musl: true, avx2: true },
		names: ["opencode-linux-x64-musl", "opencode-linux-x64-baseline-musl"],
	},
	{ arch: "x64", musl: true, avx2: false, names: ["opencode-linux-x64-baseline-musl"] },
	{ arch: "arm64", musl: false, avx2: false, names: ["opencode-linux-arm64"] },
	{ arch: "arm64", musl: true, avx2: false, names: ["opencode-linux-arm64-musl"] },
];

test.for(KINDS)("a machine gets a build that starts there: $names", ({ arch, names, ...kind }) => {
	expect(packagesFor("linux", arch, kind)).toEqual(names);
});

test("what is not installed for another kind of machine is missing, and never this machine's own", () => {
	const other = process.arch === "x64" ? "arm64" : "x64";
	expect(() => findAgentBinary("linux", other, { musl: true, avx2: true })).toThrow(
		`package opencode-linux-${other}-musl`,
	);
	expect(findAgentBinary()).toMatch(/opencode/);
	expect(agentVersion()).toMatch(/^\d+\.\d+\.\d+$/);
});
