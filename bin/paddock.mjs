#!/usr/bin/env node
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { findBundledNode, isNodeNewEnough, runInForeground } from "../scripts/node24.mjs";

if (isNodeNewEnough()) {
	// Compiled code is kept between starts: a server then begins with a third less memory. Not in the shared
	// temporary folder, where somebody else could leave code for us.
	// A young generation that does not grow: about 25 MB less for a server.
	setFlagsFromString("--semi-space-growth-factor=1");
	nodeModule.enableCompileCache(join(homedir(), ".cache", "paddock", "compiled"));
	stopWithLauncher();
	await import("../src/main.ts");
} else {
	const node = findBundledNode();
	if (node === null) {
		process.stderr.write(
			`paddock: needs Node 24, this is ${process.version}; run "npm install" in its folder, which brings one along.\n`,
		);
		process.exit(2);
	}
	const self = fileURLToPath(import.meta.url);
	process.exit(await runInForeground(node, [self, ...process.argv.slice(2)], { channel: true }));
}

/** Started by an older Node that was then killed outright: end in good order instead of running on alone. */
function stopWithLauncher() {
	if (!process.connected) return;
	process.once("disconnect", () => process.kill(process.pid, "SIGTERM"));
	process.channel?.unref();
}
