import { accessSync, constants } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { RolloutError } from "../errors.ts";

const require = createRequire(import.meta.url);

/** The OpenCode binary that npm installed for this machine. */
export function findAgentBinary(platform: string = process.platform, arch: string = process.arch): string {
	const candidates = [
		locate(`opencode-${platform}-${arch}`, "bin/opencode"),
		locate(`opencode-${platform}-${arch}-musl`, "bin/opencode"),
		locate("opencode-ai", "bin/opencode.exe"),
	];
	const found = candidates.find((path) => path !== null && isExecutable(path));
	if (found) return found;
	throw new RolloutError(
		"sandbox",
		"agent_binary_missing",
		`the OpenCode binary for ${platform}-${arch} is not installed: run npm install (package opencode-${platform}-${arch})`,
	);
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
