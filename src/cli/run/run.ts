import { availableParallelism } from "node:os";
import { type Config, loadConfig } from "../../config.ts";
import { UsageError } from "../../errors.ts";
import type { EndpointSpec } from "../../model/endpoint.ts";
import { Mode, RolloutRequest, type Sampling, type SandboxName } from "../../model/request.ts";
import type { RolloutResult } from "../../model/result.ts";
import type { Task } from "../../model/task.ts";
import { POLICY_NAMES } from "../../policy/names.ts";
import { loadTasks } from "../../task/load.ts";
import type { Arguments, Command } from "../command.ts";
import { firstCommand } from "../help.ts";
import { modelNameOf } from "../model-name.ts";
import { warnOn } from "../open-here.ts";
import { printLine, type Shell } from "../shell.ts";
import { type Display, openDisplay } from "../terminal/display.ts";
import { plural } from "../terminal/figures.ts";
import { advance, type Row } from "../terminal/progress.ts";
import { type Interrupt, onInterrupt } from "./interrupt.ts";
import { MODEL_OPTIONS, toEndpointSpec, toSampling } from "./model-options.ts";
import { requireEndpoint } from "./preflight.ts";
import { requireFolder, saveResult } from "./results-folder.ts";
import { showResults } from "./results-table.ts";
import { SANDBOX_OPTIONS, toSandbox } from "./sandbox-options.ts";
import { toServerTrouble } from "./server-trouble.ts";
import { openServerWorkplace } from "./server-workplace.ts";
import { submitAll } from "./submit-all.ts";
import { openLocalWorkplace, type Workplace } from "./workplace.ts";

const DRIVERS = ["serve", "run"] as const;
const PERMISSIONS = ["allow", "deny", "ask"] as const;

export const run: Command = {
	name: "run",
	operands: "<task|folder>…",
	summary: "run the agent on tasks and show the rewards",
	details: `A task is a folder with a task.yaml; a folder of such folders is all of them.
Exit code 0: every rollout reached a result (a reward of 0 is one); 1: at least one failed; 2: bad usage.`,
	options: {
		...MODEL_OPTIONS,
		n: { short: "n", value: "<number>", help: "rollouts of each task (default 1)" },
		concurrency: {
			value: "<number>",
			help: `rollouts at a time (default: the ${availableParallelism()} cores)`,
		},
		...SANDBOX_OPTIONS,
		driver: { value: "<driver>", choices: DRIVERS, help: "how OpenCode is driven: serve (default), run" },
		mode: { value: "<mode>", choices: Mode.options, help: Mode.options.join(" (default), ") },
		permission: {
			value: "<policy>",
			choices: PERMISSIONS,
			help: "tools that change something: allow (default), deny, ask (with --server)",
		},
		timeout: { value: "<seconds>", help: "the agent's time, instead of what the task says" },
		label: { value: "<name=value,…>", help: "labels for these rollouts, to find them by" },
		json: { help: "one JSON object per rollout on stdout, and nothing else there" },
		out: { value: "<folder>", help: "also write result, transcript and files of each rollout there" },
		server: {
			value: "<url>",
			help: "run on this Paddock server instead of in this process; several tasks are one batch",
		},
	},
	examples: [
		{
			line: "paddock run examples/tasks --policy oracle",
			says: "every example, solved by a scripted model: no key, no network",
		},
		{
			line: "paddock run my-task -n 8 --base-url http://127.0.0.1:8001/v1 --model Qwen/Qwen3-8B",
			says: "eight rollouts of one task against a local vLLM",
		},
		{
			line: "paddock run my-tasks --endpoint openai --json > results.jsonl",
			says: "OPENAI_API_KEY and OPENAI_MODEL say who answers",
		},
	],
	async run(args, shell) {
		const plan = await readPlan(args, shell);
		// Warnings go wherever the display is by then.
		const speaker = { say: warnOn(shell) };
		try {
			if (plan.server === undefined) await requireEndpoint(plan.requests[0]!.endpoint, plan.config.env);
			await using workplace = await openWorkplace(plan, shell, (message) => speaker.say(message));
			return await carryOut(plan, workplace, shell, speaker);
		} catch (error) {
			throw plan.server === undefined ? error : toServerTrouble(error, plan.server);
		}
	},
};

interface Plan {
	config: Config;
	requests: RolloutRequest[];
	n: number;
	json: boolean;
	out: string | undefined;
	server: string | undefined;
}

/** Everything that can be wrong with the words given is found here, before anything is created. */
async function readPlan(args: Arguments, shell: Shell): Promise<Plan> {
	if (args.operands.length === 0) {
		throw new UsageError(`Which task? For example: ${firstCommand()}`, "no_task");
	}
	const config = loadConfig(shell.env, shell.directory);
	const concurrency = args.whole("concurrency", { least: 1, most: 10_000 }) ?? config.concurrency;
	const n = args.whole("n", { least: 1, most: 10_000 }) ?? 1;
	const endpoint = toEndpointSpec(args, config.env, POLICY_NAMES);
	const options = {
		sandbox: toSandbox(args) ?? config.sandbox,
		mode: args.choice("mode", Mode.options) ?? "transparent_proxy",
		driver: args.choice("driver", DRIVERS) ?? "serve",
		permission: toPermission(args),
		timeoutS: args.seconds("timeout"),
		sampling: toSampling(args),
		labels: toLabels(args.text("label")),
	};
	const out = args.text("out");
	if (out !== undefined) requireFolder(out);
	const tasks = await loadTasks(args.operands);
	return {
		config: { ...config, concurrency, sandbox: options.sandbox },
		requests: tasks.map((task) => toRequest(task, endpoint, options)),
		n,
		json: args.has("json"),
		out,
		server: args.text("server"),
	};
}

function toPermission(args: Arguments): (typeof PERMISSIONS)[number] | undefined {
	const permission = args.choice("permission", PERMISSIONS);
	if (permission === "ask" && !args.has("server"))
		throw new UsageError("--permission ask needs --server: nobody could answer here.", "bad_option");
	return permission;
}

function toLabels(text: string | undefined): Record<string, string> {
	const pairs = text === undefined ? [] : text.split(",").map((pair) => /^([^=]+)=(.*)$/.exec(pair.trim()));
	if (pairs.includes(null))
		throw new UsageError(
			`--label wants name=value, several with commas between, not "${text}".`,
			"bad_option",
		);
	return Object.fromEntries(pairs.map((pair) => [pair![1]!, pair![2]!]));
}

function toRequest(
	task: Task,
	endpoint: EndpointSpec,
	options: {
		sandbox: SandboxName;
		mode: Mode;
		driver: "serve" | "run";
		permission: (typeof PERMISSIONS)[number] | undefined;
		timeoutS: number | undefined;
		sampling: Sampling;
		labels: Record<string, string>;
	},
): RolloutRequest {
	const clocks = options.timeoutS === undefined ? task.clocks : { ...task.clocks, agentS: options.timeoutS };
	return RolloutRequest.parse({
		task: { ...task, clocks },
		endpoint,
		sandbox: options.sandbox,
		mode: options.mode,
		agent: { driver: options.driver, permission: options.permission },
		sampling: options.sampling,
		labels: options.labels,
	});
}

function openWorkplace(plan: Plan, shell: Shell, warn: (message: string) => void): Promise<Workplace> {
	if (plan.server !== undefined) return openServerWorkplace(plan.server, shell.env, plan.config, warn);
	return openLocalWorkplace(plan.config, warn);
}

async function carryOut(
	plan: Plan,
	workplace: Workplace,
	shell: Shell,
	speaker: { say: (message: string) => void },
): Promise<number> {
	const submission = await submitAll(plan, workplace, speaker.say);
	const { rows } = submission;
	if (submission.interrupt !== null) {
		printLine(shell.stderr, "Stopped before everything was submitted.");
		return submission.interrupt.exitCode;
	}
	const results: RolloutResult[] = [];
	let interrupt: Interrupt | null = null;
	{
		using display = openDisplay([...rows.values()], shell, { printsResults: plan.json });
		speaker.say = (message) => display.say(message);
		if (workplace.leftOver > 0) {
			display.say(
				`${plural(workplace.leftOver, "rollout")} from before ${workplace.leftOver === 1 ? "is" : "are"} unfinished, and not part of this run: "paddock worker" goes on with them, "paddock abort --left-behind" drops them.`,
			);
		}
		using _interrupts = onInterrupt((asked) => {
			interrupt = asked;
			const unfinished = [...rows.values()].filter((row) => row.phase !== "done");
			display.say(`Stopping ${plural(unfinished.length, "rollout")} … (once more to end at once)`);
			for (const row of unfinished)
				workplace.abort(row.id).catch((error: Error) => display.say(error.message));
		});
		await workplace.start();
		const watching = [...rows.keys()].map(async (id) => {
			const result = await watch(id, rows, workplace, display);
			results.push(result);
			if (plan.out !== undefined) await saveResult(plan.out, result, workplace.files(id));
			if (plan.json) printLine(shell.stdout, JSON.stringify(result));
		});
		await Promise.all(watching).catch((error: unknown) => {
			if (plan.server !== undefined) display.say(whatGoesOn(rows, plan.server));
			throw error;
		});
	}
	speaker.say = warnOn(shell);
	if (!plan.json) {
		const model = modelNameOf(plan.requests[0]!.endpoint);
		showResults([...rows.values()], shell, { model, server: plan.server });
	}
	return exitCode(results, interrupt, shell);
}

/** Keeps the rollout's row up to date until it ends. */
async function watch(
	id: string,
	rows: Map<string, Row>,
	workplace: Workplace,
	display: Display,
): Promise<RolloutResult> {
	for await (const event of workplace.follow(id)) {
		const before = rows.get(id)!;
		const row = advance(before, event);
		rows.set(id, row);
		display.update(row, before);
	}
	const result = await workplace.result(id);
	if (result === null) throw new Error(`rollout ${id} is gone from the store`);
	return result;
}

/** A server does not need us to go on: whoever stops watching is told what to look for there. */
function whatGoesOn(rows: ReadonlyMap<string, Row>, server: string): string {
	const unfinished = [...rows.values()].filter((row) => row.phase !== "done");
	return `No longer watched, but not ended at ${server}: ${unfinished.map((row) => row.id).join(" ")}`;
}

function exitCode(results: readonly RolloutResult[], interrupt: Interrupt | null, shell: Shell): number {
	if (interrupt !== null) {
		const aborted = results.filter((result) => result.outcome === "aborted").length;
		printLine(
			shell.stderr,
			`Stopped. Kept: ${plural(results.length - aborted, "finished rollout")}, and of ${aborted} aborted what was captured until then; see "paddock list".`,
		);
		return interrupt.exitCode;
	}
	return results.some((result) => result.outcome === "failed") ? 1 : 0;
}
