import { accessSync, constants, existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { RolloutError } from "../errors.ts";

const require = createRequire(import.meta.url);

/** What a build of the agent asks of a machine, beside system and processor. */
export interface Kind {
	/** Its C library is musl: builds for the other one do not start there. */
	musl: boolean;
	/** Its processor has AVX2: without it, an x64 build must be a baseline one. */
	avx2: boolean;
}

/** The OpenCode binary that npm installed for this machine, or for another kind. */
export function findAgentBinary(
	platform: string = process.platform,
	arch: string = process.arch,
	kind: Kind = ownKind(),
): string {
	const names = packagesFor(platform, arch, kind);
	const isOwn = platform === process.platform && arch === process.arch;
	const candidates = [
		...names.map((name) => locate(name, "bin/opencode")),
		// What npm's own choice was, for the machine that it ran on.
		isOwn ? locate("opencode-ai", "bin/opencode.exe") : null,
	];
	const found = candidates.find((path) => path !== null && isExecutable(path));
	if (found) return found;
	throw new RolloutError(
		"sandbox",
		"agent_binary_missing",
		`the OpenCode binary for ${platform}-${arch} is not installed: run npm install (package ${names[0]})`,
	);
}

/** Of what npm installed, whichever the machine: one package brings them all. */
export function agentVersion(): string {
	const manifest = JSON.parse(readFileSync(require.resolve("opencode-ai/package.json"), "utf8"));
	return String(manifest.version);
}

/** The fitting ones, the fastest first. */
export function packagesFor(platform: string, arch: string, { musl, avx2 }: Kind): string[] {
	const base = `opencode-${platform}-${arch}`;
	const builds = arch !== "x64" ? [base] : avx2 ? [base, `${base}-baseline`] : [`${base}-baseline`];
	return builds.map((build) => (platform === "linux" && musl ? `${build}-musl` : build));
}

let known: Kind | null = null;

function ownKind(): Kind {
	known ??= { musl: isMusl(), avx2: hasAvx2() };
	return known;
}

/** A machine may have both; where programs start with the other loader, it is not musl. */
const LOADERS: Record<string, { glibc: string; musl: string }> = {
	x64: { glibc: "/lib64/ld-linux-x86-64.so.2", musl: "/lib/ld-musl-x86_64.so.1" },
	arm64: { glibc: "/lib/ld-linux-aarch64.so.1", musl: "/lib/ld-musl-aarch64.so.1" },
};

function isMusl(): boolean {
	const loaders = LOADERS[process.arch];
	return loaders !== undefined && existsSync(loaders.musl) && !existsSync(loaders.glibc);
}

function hasAvx2(): boolean {
	try {
		return /\bavx2\b/.test(readFileSync("/proc/cpuinfo", "utf8"));
	} catch {
		return true;
	}
}

function locate(packageName: string, file: string): string | null {
	try {
		return join(dirname(require.resolve(`${packageName}/package.json`)), file);
	} catch {
		return null;
	}
}

function isExecutable(path: string): boolean {
	try {
		accessSync(path, constants.X_OK);
		return true;
	} catch {
		return false;
	}
}
