import { UsageError } from "../errors.ts";
import type { Credential } from "../model/credential.ts";
import { DialectName } from "../model/endpoint.ts";
import type { Paddock } from "../paddock.ts";
import { captureCommand } from "./capture.ts";
import type { Arguments, Command } from "./command.ts";
import { onlyLabel, openStore, saySo } from "./credential-store.ts";
import { toBaseUrl } from "./run/model-options.ts";
import { printLine, type Shell } from "./shell.ts";
import { showTime } from "./terminal/figures.ts";
import { widthFor } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const POOL_OPTION = {
	value: "<name>",
	help: "its pool: rollouts take any one of it with --endpoint pool:<name>",
};
const JSON_OPTION = { json: { help: "as JSON, for a program to read" } };

const list: Command = {
	name: "credentials list",
	operands: "",
	summary: "list stored credentials; never a secret",
	options: JSON_OPTION,
	examples: [{ line: "paddock credentials list", says: "what can be used as --endpoint cred:<label>" }],
	async run(args, shell) {
		await using paddock = await openStore(shell);
		const credentials = await paddock.credentials();
		if (args.has("json")) for (const each of credentials) printLine(shell.stdout, JSON.stringify(each));
		else if (credentials.length === 0)
			printLine(shell.stdout, "No credentials here. Add one: paddock credentials add --help");
		else for (const line of tableOf(credentials, widthFor(shell.stdout))) printLine(shell.stdout, line);
		return 0;
	},
};

const add: Command = {
	name: "credentials add",
	operands: "<label>",
	summary: "store an API key, read from standard input",
	details: `The key is sealed before it is stored and never shown again. Rollouts then use it with --endpoint cred:<label>,
on this machine and on every other that shares the database.`,
	options: {
		"base-url": { value: "<url>", help: "where the key is good: an OpenAI-compatible server, ending in /v1" },
		model: { value: "<name>", help: "the model, unless a rollout names another" },
		dialect: {
			value: "<name>",
			choices: DialectName.options,
			help: `${DialectName.options.join(", ")} (default auto)`,
		},
		capacity: { value: "<number>", help: "how many rollouts may use it at once (default 1000)" },
		pool: POOL_OPTION,
	},
	examples: [
		{
			line: "paddock credentials add team --base-url https://api.openai.com/v1 --model gpt-4o-mini < key.txt",
			says: "then: paddock run <task> --endpoint cred:team",
		},
	],
	async run(args, shell) {
		const label = onlyLabel(args);
		const [baseUrl, model] = [toBaseUrl(args.text("base-url")), args.text("model")];
		if (baseUrl === undefined || model === undefined) {
			throw new UsageError("Where is the key good? Give --base-url <url> and --model <name>.", "bad_option");
		}
		const dialect = args.choice("dialect", DialectName.options);
		const capacity = args.whole("capacity", { least: 1, most: 100_000 });
		if (shell.stdin.isTTY) {
			throw new UsageError(
				"The key is read from standard input, so that it is in no history: paddock credentials add … < key.txt",
				"no_key",
			);
		}
		const apiKey = await shell.stdin.read();
		await using paddock = await openStore(shell);
		const pool = args.text("pool");
		saySo(shell, await paddock.addApiKey({ label, apiKey, baseUrl, model, dialect, capacity, pool }));
		return 0;
	},
};

const show: Command = {
	name: "credentials show",
	operands: "<label>",
	summary: "what is known of one credential, and who uses it; never the secret",
	options: {},
	examples: [{ line: "paddock credentials show team", says: "as JSON" }],
	async run(args, shell) {
		const label = onlyLabel(args);
		await using paddock = await openStore(shell);
		const credential = await paddock.credential(label);
		if (credential === null) throw unknown(label);
		printLine(shell.stdout, JSON.stringify(credential, null, 2));
		return 0;
	},
};

const remove: Command = {
	name: "credentials delete",
	operands: "<label>",
	summary: "forget a credential, with the key that sealed it",
	options: { force: { help: "also while it is in use: its holders lose it" } },
	examples: [{ line: "paddock credentials delete team", says: "refused while a rollout uses it" }],
	async run(args, shell) {
		const label = onlyLabel(args);
		await using paddock = await openStore(shell);
		if (!(await paddock.removeCredential(label, { force: args.has("force") }))) throw unknown(label);
		printLine(shell.stdout, `Deleted ${label}.`);
		return 0;
	},
};

const verify: Command = {
	name: "credentials verify",
	operands: "[<label>…]",
	summary: "ask the provider whether a credential is good",
	details: `One small question with it, whose answer only a model knows; a login's tokens are refreshed for that if need be, and
stored first. The verdict: alive, dead (refused for good), limited (refused for now), or unknown: an outage is not death.`,
	options: { all: { help: "every credential here; those in use are passed over" }, ...JSON_OPTION },
	examples: [{ line: "paddock credentials verify --all", says: "exit code 1 when one is dead" }],
	async run(args, shell) {
		await using paddock = await openStore(shell);
		const labels = args.has("all") ? (await paddock.credentials()).map(({ label }) => label) : args.operands;
		if (labels.length === 0 && !args.has("all"))
			throw new UsageError("Which credentials? Name their labels, or give --all.", "bad_option");
		const states: string[] = [];
		for (const label of labels) states.push(await verifyOne(label, paddock, args, shell));
		return states.includes("dead") ? 1 : 0;
	},
};

const free: Command = {
	name: "credentials free",
	operands: "<label>",
	summary: "end a quarantine without asking the provider",
	details: `A credential is quarantined when a holder that had lost it came back with newer tokens: nobody knows which of the two the
provider still takes. credentials verify finds out by asking. This decides without asking: what is stored is used again and what was put
aside is forgotten, or the other way round.`,
	options: { newest: { help: "what was put aside last takes the place of what is stored" } },
	examples: [
		{ line: "paddock credentials free ada --newest", says: "when you know that it was refreshed last" },
	],
	async run(args, shell) {
		const label = onlyLabel(args);
		await using paddock = await openStore(shell);
		const newest = args.has("newest");
		if ((await paddock.freeCredential(label, { newest })) === null) throw unknown(label);
		printLine(
			shell.stdout,
			`${label} may be used again, with ${newest ? "what was put aside" : "what was stored"}.`,
		);
		return 0;
	},
};

const purge: Command = {
	name: "credentials purge",
	operands: "",
	summary: "forget every dead credential, or all of a pool",
	options: {
		pool: { value: "<name>", help: "all of this pool, whatever their state" },
		force: { help: "also those in use: their holders lose them" },
	},
	examples: [{ line: "paddock credentials purge", says: "what no provider takes any more is forgotten" }],
	async run(args, shell) {
		await using paddock = await openStore(shell);
		const options = { pool: args.text("pool"), force: args.has("force") };
		const { removed, inUse } = await paddock.purgeCredentials(options);
		printLine(shell.stdout, removed.length === 0 ? "Nothing to forget." : `Deleted ${removed.join(", ")}.`);
		if (inUse.length > 0) printLine(shell.stderr, `In use, and kept: ${inUse.join(", ")}.`);
		return inUse.length > 0 ? 1 : 0;
	},
};

const rotateKey: Command = {
	name: "credentials rotate-key",
	operands: "",
	summary: "put a new master key in the old one's place",
	details: `Everything stays readable. Copy the new key file to every machine that shares the database before it starts
again. When this was interrupted, run it again.`,
	options: {},
	examples: [{ line: "paddock credentials rotate-key", says: "the old key opens nothing any more" }],
	async run(_args, shell) {
		await using paddock = await openStore(shell);
		await paddock.rotateKey();
		printLine(shell.stdout, "A new master key is in place.");
		return 0;
	},
};

export const credentialCommands: readonly Command[] = [
	...[list, add, captureCommand, show, verify, free, remove, purge, rotateKey],
];

async function verifyOne(label: string, paddock: Paddock, args: Arguments, shell: Shell): Promise<string> {
	try {
		const credential = await paddock.verifyCredential(label);
		if (credential === null) throw unknown(label);
		const { state, reason } = credential;
		const words = `${label}: ${state}${reason === null ? "" : ` (${reason})`}`;
		printLine(shell.stdout, args.has("json") ? JSON.stringify(credential) : words);
		return state;
	} catch (error) {
		if (!args.has("all") || !(error instanceof UsageError) || error.code !== "credential_held") throw error;
		printLine(shell.stderr, `${label}: in use`);
		return "held";
	}
}

function unknown(label: string): UsageError {
	return new UsageError(
		`there is no credential ${label}: see paddock credentials list`,
		"unknown_credential",
	);
}

function tableOf(credentials: readonly Credential[], width: number): string[] {
	const titles = ["label", "kind", "pool", "endpoint", "model", "state", "in use", "last used"];
	return layOut(
		titles.map((title) => ({ title })),
		credentials.map(({ label, kind, pool, endpoint, planted, state, holders, capacity, lastUsedAt }) => [
			...[label, kind, pool ?? "-", placeOf(endpoint, planted)],
			...[endpoint?.model ?? planted?.model ?? "-", state],
			`${holders.length} of ${capacity}`,
			lastUsedAt === null ? "never" : showTime(lastUsedAt),
		]),
		width,
	);
}

function placeOf(endpoint: Credential["endpoint"], planted: Credential["planted"]): string {
	return planted === null ? (endpoint?.baseUrl ?? "-") : `in the box, to ${planted.hosts.join(", ")}`;
}
