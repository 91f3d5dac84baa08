import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { UsageError } from "../errors.ts";
import { findAgentBinary } from "../host/binary.ts";
import { DialectName } from "../model/endpoint.ts";
import type { Arguments, Command } from "./command.ts";
import { onlyLabel, openStore, saySo } from "./credential-store.ts";
import { printLine, type Shell } from "./shell.ts";

/** Of our surroundings a login may see the terminal and the way out; neither another login nor a key. */
const PASSED_ON = ["PATH", "TERM", "LANG", "LC_ALL", "COLORTERM", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER"];

export const captureCommand: Command = {
	name: "credentials capture",
	operands: "<label>",
	summary: "store the login of an agent: a new one made now, or one from its home",
	details: `Without --from, opencode auth login runs here in a throwaway home, which is removed when its login is stored. Refused
with a reason when nobody is logged in there, when auth.json is half-written, or when no model is set.`,
	options: {
		from: { value: "<home>", help: "an agent's home that has a login already; nothing is changed there" },
		login: { value: "<program>", help: "logs in instead of opencode auth login; HOME is the throwaway home" },
		model: { value: "<provider/model>", help: "the model, unless its opencode.json names one" },
		"base-url": { value: "<url>", help: "where the provider's models are, unless its opencode.json says so" },
		"token-url": {
			value: "<url>",
			help: "where the provider refreshes tokens (RFC 6749); for logins that rotate",
		},
		"client-id": { value: "<id>", help: "who the provider knows the agent as" },
		dialect: {
			value: "<name>",
			choices: DialectName.options,
			help: `${DialectName.options.join(", ")} (default auto)`,
		},
		pool: { value: "<name>", help: "its pool: rollouts take any one of it with --endpoint pool:<name>" },
		plugins: { help: "take the agent's plugins along; they are programs" },
		plant: {
			value: "<hosts>",
			help: "only the agent can speak for it: it lies in the agent's box, which reaches these hosts and no others; nothing is captured",
		},
	},
	examples: [
		{
			line: "paddock credentials capture ada --model acme/large --base-url https://api.acme.example/v1 --token-url https://auth.acme.example/token",
			says: "log in now, and store it",
		},
		{ line: "paddock credentials capture ada --from ~", says: "store the login that this account has" },
		{
			line: "paddock credentials capture ada --model acme/large --plugins --plant api.acme.example,auth.acme.example",
			says: "for a provider that only a plugin of the agent's speaks to",
		},
	],
	async run(args, shell) {
		const label = onlyLabel(args);
		const from = args.text("from");
		if (from !== undefined) return await store(label, resolve(shell.directory, from), args, shell);
		const home = await mkdtemp(join(tmpdir(), "paddock-login-"));
		try {
			await logIn(home, args.text("login"), shell);
			return await store(label, home, args, shell);
		} finally {
			await rm(home, { recursive: true, force: true });
		}
	},
};

async function store(label: string, home: string, args: Arguments, shell: Shell): Promise<number> {
	await using paddock = await openStore(shell);
	const credential = await paddock.capture(home, {
		label,
		model: args.text("model"),
		baseUrl: args.text("base-url"),
		tokenUrl: args.text("token-url"),
		clientId: args.text("client-id"),
		dialect: args.choice("dialect", DialectName.options),
		pool: args.text("pool"),
		plugins: args.has("plugins"),
		hosts: args.text("plant")?.split(","),
	});
	saySo(shell, credential);
	return 0;
}

/** In the caller's terminal, with nothing of the caller's own home. */
async function logIn(home: string, program: string | undefined, shell: Shell): Promise<void> {
	if (program === undefined && !shell.stdin.isTTY)
		throw new UsageError(
			"A login needs a terminal. Without one, give --from <home>, or --login <program>.",
			"no_terminal",
		);
	printLine(shell.stderr, "Log in. What you enter stays in a throwaway home until it is stored.");
	const [command, args] = program === undefined ? [findAgentBinary(), ["auth", "login"]] : [program, []];
	const env = Object.fromEntries(PASSED_ON.map((name) => [name, shell.env[name]]));
	const child = spawn(command, args, {
		cwd: home,
		env: { ...env, HOME: home, OPENCODE_DISABLE_AUTOUPDATE: "1" },
		stdio: "inherit",
	});
	const [code] = (await once(child, "exit").catch((error: Error) => {
		throw new UsageError(`${command} cannot be started: ${error.message}`, "login_failed");
	})) as [number | null];
	if (code !== 0)
		throw new UsageError(`the login ended with ${code ?? "a signal"}: nothing is stored`, "login_failed");
}
