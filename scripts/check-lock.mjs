import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "./node24.mjs";

/** The lock file names versions and checksums, never the place they were fetched from: any mirror will do. */
const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8"));
const problems = [];
for (const [path, entry] of Object.entries(lock.packages)) {
	if (entry.resolved !== undefined) problems.push(`${path}: has an address ("resolved")`);
	else if (path !== "" && !entry.link && entry.integrity === undefined)
		problems.push(`${path}: has no checksum`);
}
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
	if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
		problems.push(`${name}: "${version}" is not an exact version`);
	if (lock.packages[`node_modules/${name}`]?.version !== version)
		problems.push(`${name}: the lock file has another version`);
}
for (const problem of problems) process.stdout.write(`package-lock.json: ${problem}\n`);
process.exit(problems.length === 0 ? 0 : 1);
