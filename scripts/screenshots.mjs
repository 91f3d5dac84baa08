import { childEnvironment, newEnoughNode, ROOT, runInForeground } from "./node24.mjs";
import { ensureReady } from "./setup.mjs";

ensureReady();
process.exit(
	await runInForeground(newEnoughNode(), ["scripts/screenshots/screenshots.ts"], {
		cwd: ROOT,
		env: childEnvironment(),
	}),
);
