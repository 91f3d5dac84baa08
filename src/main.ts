const [major] = process.versions.node.split(".");

if (Number(major) < 24) {
	// The launcher finds the Node that came along, or says in one sentence how to get it.
	await import(new URL("../bin/paddock.mjs", import.meta.url).href);
} else {
	// Loaded only now: an older Node could not even parse what follows.
	const { main } = await import("./cli/cli.ts");
	const { processShell } = await import("./cli/shell.ts");
	const code = await main(process.argv.slice(2), processShell());
	// What was printed must have left before the process ends, and nothing forgotten may keep it alive.
	await new Promise((resolve) => process.stdout.write("", resolve));
	process.exit(code);
}
