import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { Command } from "./command.ts";
import { printLine } from "./shell.ts";

const DEFAULT_NAME = "paddock";

/** `paddock e2b build-template` */
export const e2bBuildTemplate: Command = {
	name: "e2b build-template",
	operands: "",
	summary: "build the E2B template that boxes are made from, with OpenCode in it",
	details: `Needs E2B_API_KEY. Build it again after every update of Paddock: a template with another version of OpenCode
still works, but then this one is uploaded once and kept as a snapshot of it.`,
	options: {
		name: {
			value: "<name>",
			help: `the template's name (default: PADDOCK_E2B_TEMPLATE, else ${DEFAULT_NAME})`,
		},
		cpus: { value: "<number>", help: "cores of each machine (default 2)" },
		memory: { value: "<MiB>", help: "memory of each machine, home folder included (default 4096)" },
	},
	examples: [
		{ line: "paddock e2b build-template", says: "then: paddock run my-tasks --sandbox e2b" },
		{
			line: "paddock e2b build-template --name big --cpus 8 --memory 8192",
			says: "then: PADDOCK_E2B_TEMPLATE=big",
		},
	],
	async run(args, shell) {
		const { env } = loadConfig(shell.env, shell.directory);
		if (!env.E2B_API_KEY) {
			throw new UsageError("E2B_API_KEY is not set: https://e2b.dev/dashboard has it.", "e2b_not_configured");
		}
		const name = args.text("name") ?? env.PADDOCK_E2B_TEMPLATE ?? DEFAULT_NAME;
		const cpus = args.whole("cpus", { least: 1, most: 64 });
		const memoryMb = args.whole("memory", { least: 512, most: 262_144 });
		const { buildE2bTemplate } = await import("../sandbox/e2b/template.ts");
		const { templateId } = await buildE2bTemplate({
			name,
			env,
			cpus,
			memoryMb,
			onLog: (line) => printLine(shell.stderr, line),
		});
		printLine(shell.stdout, `${name} ${templateId}`);
		return 0;
	},
};
