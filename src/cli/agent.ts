import { resolve } from "node:path";
import { loadConfig } from "../config.ts";
import { UsageError } from "../errors.ts";
import type { EndpointSpec } from "../model/endpoint.ts";
import type { KeptAgent, KeptBudget } from "../model/kept-agent.ts";
import type { Paddock } from "../paddock.ts";
import type { Arguments, Command, Option } from "./command.ts";
import { openHere, warnOn } from "./open-here.ts";
import { stayAlive, untilInterrupt } from "./run/interrupt.ts";
import { readKey, toBaseUrl } from "./run/model-options.ts";
import { printLine, type Shell } from "./shell.ts";
import { widthFor } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const MOST = Number.MAX_SAFE_INTEGER;
const PERMISSIONS = ["allow", "deny", "ask"] as const;
const KEY_STATES = ["revoked", "renewed"] as const;

const CHANGEABLE: Record<string, Option> = {
	model: { value: "<name>", help: "a model at the endpoint; the first is the default", multiple: true },
	"max-tokens": { value: "<number>", help: "all that its key may spend, in and out, over all its starts" },
	"max-calls": { value: "<number>", help: "how often it may ask a model, over all its starts" },
	permission: {
		value: "<rule>",
		choices: PERMISSIONS,
		help: `for what it wants to do: ${PERMISSIONS.join(", ")} (default ask)`,
	},
};

const list: Command = {
	name: "agent list",
	operands: "",
	summary: "list the agents that are kept on a machine, outside any box; never a secret",
	options: { json: { help: "as JSON, for a program to read" } },
	examples: [{ line: "paddock agent list", says: "their models, what they have spent, where they run" }],
	async run(args, shell) {
		await using paddock = await openStore(shell);
		const agents = await paddock.agents();
		if (args.has("json")) for (const agent of agents) printLine(shell.stdout, JSON.stringify(agent));
		else if (agents.length === 0)
			printLine(shell.stdout, "No agents here. Add one: paddock agent add --help");
		else for (const line of tableOf(agents, widthFor(shell.stdout))) printLine(shell.stdout, line);
		return 0;
	},
};

const add: Command = {
	name: "agent add",
	operands: "<name>",
	summary: "add an agent that lives on this machine, outside any box",
	details: `It has no walls: it can do what you can. Behind the gateway (unless --direct) it gets a key of its own,
which can be limited and revoked, and every call is captured. The endpoint's key never reaches its files then.`,
	options: {
		endpoint: {
			value: "<name>",
			help: "vllm, openai, hf_router, or a stored key: cred:<label>",
		},
		"base-url": { value: "<url>", help: "any OpenAI-compatible server, ending in /v1" },
		"api-key-env": { value: "<variable>", help: "the environment variable that holds the endpoint's key" },
		...CHANGEABLE,
		host: { value: "<name>", help: "on a machine of paddock host list instead of this one" },
		direct: { help: "straight to the endpoint: nothing is captured, counted or limited" },
		home: { value: "<folder>", help: "its sessions and log (default: below PADDOCK_HOME)" },
		binary: { value: "<path>", help: "the OpenCode program (default: the one that came with Paddock)" },
	},
	examples: [
		{
			line: "paddock agent add aide --endpoint cred:team --model gpt-4o-mini --max-tokens 1000000",
			says: "then: paddock agent start aide",
		},
		{
			line: "paddock agent add local --base-url http://127.0.0.1:8001/v1 --model small --model large",
			says: "with two models to choose from",
		},
	],
	async run(args, shell) {
		const name = onlyName(args);
		const models = [...args.all("model")];
		if (models.length === 0)
			throw new UsageError("Which model? Give --model <name>, once or more.", "no_model");
		const endpoint = toEndpoint(args, models[0]!, shell.env);
		const [home, binary, host] = [args.text("home"), args.text("binary"), args.text("host")];
		await using paddock = await openStore(shell);
		const agent = await paddock.addAgent({
			...{ name, endpoint, models, host, budget: toBudget(args) },
			via: args.has("direct") ? "direct" : "gateway",
			permission: args.choice("permission", PERMISSIONS),
			...(home === undefined ? {} : { home: resolve(shell.directory, home) }),
			...(binary === undefined ? {} : { binary: resolve(shell.directory, binary) }),
		});
		printLine(shell.stdout, `Added ${name} (home ${agent.home}). Start it: paddock agent start ${name}`);
		return 0;
	},
};

const change: Command = {
	name: "agent change",
	operands: "<name>",
	summary: "change an agent's models or limits, or revoke its key",
	details: `Limits count at once, also where it runs. Models and permissions wait for its next start.
A limit that is not given stays as it is.`,
	options: {
		...CHANGEABLE,
		key: {
			value: "<word>",
			choices: KEY_STATES,
			help: "revoked: it opens nothing any more, what runs ends; renewed: another",
		},
	},
	examples: [
		{ line: "paddock agent change aide --max-tokens 2000000", says: "it may spend more" },
		{ line: "paddock agent change aide --key revoked", says: "from now on its key opens nothing" },
	],
	async run(args, shell) {
		const name = onlyName(args);
		await using paddock = await openStore(shell);
		const models = args.has("model") ? [...args.all("model")] : undefined;
		const before = await paddock.agent(name);
		if (before === null) throw unknown(name);
		const budget = toBudget(args);
		const agent = await paddock.changeAgent(name, {
			...{ models, permission: args.choice("permission", PERMISSIONS) },
			key: args.choice("key", KEY_STATES),
			...(Object.keys(budget).length === 0 ? {} : { budget: { ...before.budget, ...budget } }),
		});
		const later = agent?.needsRestart ? " It takes effect when it is started anew." : "";
		printLine(shell.stdout, `Changed ${name}.${later}`);
		return 0;
	},
};

const start: Command = {
	name: "agent start",
	operands: "<name>",
	summary: "start an agent and keep it healthy, until Ctrl-C or paddock agent stop",
	details: `This command keeps the agent: it restarts a server that dies and holds its way to the models. When the command itself
is killed, the server lives on and the next start takes it over. A running paddock serve keeps those it was asked
for over HTTP (POST /api/v1/agents/<name>/start), and takes over what a dead one left.`,
	options: {},
	examples: [{ line: "paddock agent start aide", says: "prints where its server listens" }],
	async run(args, shell) {
		const name = onlyName(args);
		await using paddock = await openStore(shell);
		// From before the start on: a server that is just starting would outlive a command that dies of its Ctrl-C.
		const interrupted = untilInterrupt();
		using _staying = stayAlive();
		const starting = paddock.startAgent(name);
		const started = await Promise.race([starting, interrupted]);
		if ("signal" in started) {
			printLine(shell.stderr, "Closing …");
			await paddock.stopAgent(name);
			await starting.catch(() => {}); // It was told to end.
			return started.exitCode;
		}
		const { baseUrl, ended } = started;
		printLine(shell.stdout, `${name} is at ${baseUrl}. Its password: paddock agent access ${name}`);
		printLine(shell.stderr, "Ctrl-C ends it.");
		const first = await Promise.race([ended, interrupted]);
		if (typeof first === "string") {
			printLine(shell.stderr, `${name} has ended: ${first}.`);
			return first === "it was stopped" || first === "it was removed" ? 0 : 1;
		}
		printLine(shell.stderr, "Closing …");
		await paddock.stopAgent(name);
		return 0;
	},
};

const stop: Command = {
	name: "agent stop",
	operands: "<name>",
	summary: "stop an agent, wherever it runs; nothing that it started lives on",
	options: {},
	examples: [{ line: "paddock agent stop aide", says: "also when the process that kept it was killed" }],
	async run(args, shell) {
		const name = onlyName(args);
		await using paddock = await openStore(shell);
		if ((await paddock.stopAgent(name)) === null) throw unknown(name);
		printLine(shell.stdout, `${name} does not run.`);
		return 0;
	},
};

const logs: Command = {
	name: "agent logs",
	operands: "<name>",
	summary: "the end of its server's log, without secrets",
	options: { lines: { value: "<number>", help: "how many (default 100)" } },
	examples: [{ line: "paddock agent logs aide --lines 20", says: "the last twenty lines" }],
	async run(args, shell) {
		const name = onlyName(args);
		const lines = args.whole("lines", { least: 1, most: 100_000 }) ?? 100;
		await using paddock = await openStore(shell);
		const text = await paddock.agentLog(name);
		if (text === null) throw unknown(name);
		for (const line of text.trimEnd().split("\n").slice(-lines)) printLine(shell.stdout, line);
		return 0;
	},
};

const access: Command = {
	name: "agent access",
	operands: "<name>",
	summary: "print what its running server is reached with: address and password",
	details: "As shell variables. Whoever has them can do what the agent can: keep them to yourself.",
	options: {},
	examples: [
		{
			line: `eval "$(paddock agent access aide)"; opencode attach "$OPENCODE_SERVER_URL"`,
			says: "OpenCode's own screen on it",
		},
	],
	async run(args, shell) {
		const name = onlyName(args);
		await using paddock = await openStore(shell);
		const found = await paddock.agentAccess(name);
		if (found === null)
			throw new UsageError(`${name} does not run: paddock agent start ${name}`, "agent_stopped");
		printLine(shell.stdout, `export OPENCODE_SERVER_URL=${found.baseUrl}`);
		printLine(shell.stdout, `export OPENCODE_SERVER_PASSWORD=${found.password}`);
		return 0;
	},
};

const remove: Command = {
	name: "agent remove",
	operands: "<name>",
	summary: "stop an agent and forget it, with its key",
	details: "Its home goes with it, unless that was chosen with --home.",
	options: {},
	examples: [{ line: "paddock agent remove aide", says: "its key opens nothing any more" }],
	async run(args, shell) {
		const name = onlyName(args);
		await using paddock = await openStore(shell);
		if (!(await paddock.removeAgent(name))) throw unknown(name);
		printLine(shell.stdout, `Removed ${name}.`);
		return 0;
	},
};

export const agentCommands: readonly Command[] = [add, list, change, start, stop, logs, access, remove];

function openStore(shell: Shell): Promise<Paddock> {
	return openHere(loadConfig(shell.env, shell.directory), warnOn(shell));
}

function onlyName(args: Arguments): string {
	const [name, ...rest] = args.operands;
	if (name !== undefined && rest.length === 0) return name;
	throw new UsageError("Which agent? Name one.", "bad_option");
}

function unknown(name: string): UsageError {
	return new UsageError(`there is no agent ${name}: see paddock agent list`, "unknown_agent");
}

function toEndpoint(args: Arguments, model: string, env: Shell["env"]): EndpointSpec {
	const [name, baseUrl] = [args.text("endpoint"), toBaseUrl(args.text("base-url"))];
	const apiKey = readKey(args.text("api-key-env"), env);
	const key = apiKey === undefined ? {} : { apiKey };
	if (name !== undefined)
		return { type: "named", name, ...(baseUrl === undefined ? {} : { baseUrl }), model, ...key };
	if (baseUrl === undefined)
		throw new UsageError("Where are its models? Give --endpoint <name> or --base-url <url>.", "no_model");
	return { type: "url", baseUrl, model, dialect: "auto", ...key };
}

function toBudget(args: Arguments): KeptBudget {
	const maxTotalTokens = args.whole("max-tokens", { least: 1, most: MOST });
	const maxCalls = args.whole("max-calls", { least: 1, most: MOST });
	return {
		...(maxTotalTokens === undefined ? {} : { maxTotalTokens }),
		...(maxCalls === undefined ? {} : { maxCalls }),
	};
}

function tableOf(agents: readonly KeptAgent[], width: number): string[] {
	const titles = ["name", "models", "by way of", "calls", "tokens", "limit", "state", "at"];
	return layOut(
		titles.map((title) => ({ title })),
		agents.map((agent) => [
			...[agent.name, agent.models.join(", "), agent.via, String(agent.spent.calls)],
			String(agent.spent.promptTokens + agent.spent.completionTokens),
			String(agent.budget.maxTotalTokens ?? "none"),
			...[stateOf(agent), [agent.baseUrl ?? "-", ...(agent.host === null ? [] : [agent.host])].join(" on ")],
		]),
		width,
	);
}

function stateOf({ revokedAt, keptBy, baseUrl, needsRestart }: KeptAgent): string {
	if (revokedAt !== null) return "revoked";
	if (keptBy === null) return "stopped";
	if (baseUrl === null) return "starting";
	return needsRestart ? "running, changed" : "running";
}
