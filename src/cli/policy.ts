import { UsageError } from "../errors.ts";
import { POLICIES, requirePolicy } from "../policy/names.ts";
import { loadTasks } from "../task/load.ts";
import type { Command } from "./command.ts";
import { untilInterrupt } from "./run/interrupt.ts";
import { printLine } from "./shell.ts";
import { widthFor } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const KEY = "paddock";

export const policy: Command = {
	name: "policy",
	operands: "[<policy> <task>]",
	summary: "serve a scripted model as an OpenAI-compatible endpoint; without operands, list them",
	details: `Loopback only. Answers /v1/chat/completions with exact token ids and logprobs, in vLLM's dialect.`,
	options: { port: { value: "<number>", help: "where to listen (default: any free port)" } },
	examples: [
		{ line: "paddock policy", says: "which policies there are" },
		{
			line: "paddock policy oracle examples/tasks/fizzbuzz --port 8001",
			says: "then: KEY=paddock paddock run … --base-url http://127.0.0.1:8001/v1 --model oracle --api-key-env KEY",
		},
	],
	async run(args, shell) {
		const [name, path, ...rest] = args.operands;
		if (name === undefined) {
			const rows = Object.entries(POLICIES);
			const columns = [{ title: "policy" }, { title: "what it does" }];
			for (const line of layOut(columns, rows, widthFor(shell.stdout))) printLine(shell.stdout, line);
			return 0;
		}
		requirePolicy(name);
		if (name === "replay") {
			throw new UsageError(
				`A replay needs the store: paddock run <task> --policy replay --trace <rollout>`,
				"bad_option",
			);
		}
		if (path === undefined || rest.length > 0) {
			throw new UsageError(`Which task should "${name}" play? Name one task folder.`, "no_task");
		}
		const [task, ...others] = await loadTasks([path]);
		if (task === undefined || others.length > 0)
			throw new UsageError(`${path} holds several tasks; name one.`, "no_task");
		const port = args.whole("port", { least: 0, most: 65_535 }) ?? 0;
		const { openPolicyServer } = await import("../policy/server.ts");
		await using server = await openPolicyServer({ port });
		using _part = await server.cast({ policy: name, task }, { model: name, apiKey: KEY });
		printLine(shell.stdout, `base URL  ${server.baseUrl}\nmodel     ${name}\nAPI key   ${KEY}`);
		printLine(shell.stderr, `Playing "${name}" on ${task.id}. Ctrl-C ends it.`);
		await untilInterrupt();
		return 0;
	},
};
