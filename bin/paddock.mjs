#!/usr/bin/env node
import { existsSync } from "node:fs";
import * as nodeModule from "node:module";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setFlagsFromString } from "node:v8";
import { findBundledNode, isNodeNewEnough, runInForeground, whenOrphaned } from "../scripts/node24.mjs";

if (isNodeNewEnough()) {
	// Compiled code is kept between starts: a server then begins with a third less memory. Not in the shared
	// temporary folder, where somebody else could leave code for us.
	// A young generation that does not grow: about 25 MB less for a server.
	setFlagsFromString("--semi-space-growth-factor=1");
	nodeModule.enableCompileCache(join(homedir(), ".cache", "paddock", "compiled"));
	stopWithStarter();
	// A checkout runs its sources; the package has none and carries what was built of them.
	const sources = new URL("../src/main.ts", import.meta.url);
	await import(existsSync(sources) ? sources.href : new URL("../dist/main.js", import.meta.url).href);
} else {
	const node = findBundledNode();
	if (node === null) {
		process.stderr.write(
			`paddock: needs Node 24 or newer, this is ${process.version}; "npm install --ignore-scripts=false" in its folder brings one along.\n`,
		);
		process.exit(2);
	}
	const self = fileURLToPath(import.meta.url);
	process.exit(await runInForeground(node, [self, ...process.argv.slice(2)], { channel: true }));
}

/**
 * Whoever started us is gone, and could not tell us: end in good order instead of running on alone. Commands that take
 * long listen for "orphaned" (see src/cli/interrupt.ts); the others, and those about to end, end by themselves.
 */
function stopWithStarter() {
	const tell = () => process.emit("orphaned");
	if (!process.connected) return whenOrphaned(tell);
	// An older Node started us: the channel to it is closed when it is killed outright.
	process.once("disconnect", () => tell() || process.kill(process.pid, "SIGTERM"));
	process.channel?.unref();
}
