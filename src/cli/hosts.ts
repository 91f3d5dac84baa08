import { resolve } from "node:path";
import { UsageError } from "../errors.ts";
import { findAgentBinary } from "../host/binary.ts";
import type { Host } from "../model/host.ts";
import type { Paddock } from "../paddock.ts";
import type { Arguments, Command } from "./command.ts";
import { openStore } from "./credential-store.ts";
import { onInterrupt } from "./run/interrupt.ts";
import { printLine, type Shell } from "./shell.ts";
import { widthFor } from "./terminal/style.ts";
import { layOut } from "./terminal/table.ts";

const WRAP_OPTION = {
	wrap: {
		value: "<words>",
		help: "stands before the command that starts the agent there, such as nice -n 10",
	},
};

const add: Command = {
	name: "host add",
	operands: "<name> <user@host[:port]>",
	summary: "give a machine a name, to place boxes there",
	details:
		"The machine's own key must be known beforehand: from known_hosts, or by its fingerprint. Nothing is learned on the way.",
	options: {
		"key-file": { value: "<file>", help: "the private key to log in with (default ~/.ssh/id_ed25519)" },
		fingerprint: { value: "<SHA256:…>", help: "of the machine's own key, as ssh-keygen -lf prints it" },
		"known-hosts": { value: "<file>", help: "where its key is known from (default ~/.ssh/known_hosts)" },
		"allow-plain": { help: "boxes without walls, where the machine has no bubblewrap" },
	},
	examples: [
		{
			line: "paddock host add big ada@big.example",
			says: "then: paddock run <task> --sandbox ssh --host big",
		},
	],
	async run(args, shell) {
		const [name, address, ...rest] = args.operands;
		if (name === undefined || address === undefined || rest.length > 0)
			throw new UsageError("Which machine? Give a name and user@host or user@host:port.", "bad_option");
		const file = (option: string) => {
			const path = args.text(option);
			return path === undefined ? null : resolve(shell.directory, path);
		};
		await using paddock = await openStore(shell);
		await paddock.addHost({
			...{ name, address, keyFile: file("key-file"), knownHostsFile: file("known-hosts") },
			...{ fingerprint: args.text("fingerprint") ?? null, allowPlain: args.has("allow-plain") },
		});
		printLine(shell.stdout, `Added ${name}. See whether it works: paddock host check ${name}`);
		return 0;
	},
};

const list: Command = {
	name: "host list",
	operands: "",
	summary: "list this machine and those that were given a name",
	options: { json: { help: "as JSON, for a program to read" } },
	examples: [{ line: "paddock host list", says: "what can be used as --host <name>" }],
	async run(args, shell) {
		await using paddock = await openStore(shell);
		const hosts = await paddock.hosts();
		if (args.has("json")) for (const host of hosts) printLine(shell.stdout, JSON.stringify(host));
		else for (const line of tableOf(hosts, widthFor(shell.stdout))) printLine(shell.stdout, line);
		return 0;
	},
};

const check: Command = {
	name: "host check",
	operands: "<name>",
	summary: "log in, look the machine over, and ask its agent for its version",
	options: { ...WRAP_OPTION, install: { help: "install the agent there, if it is missing or was changed" } },
	examples: [{ line: "paddock host check big --install", says: "exit code 1 when something is wrong" }],
	run: (args, shell) =>
		untilStopped(async (signal) => {
			const name = onlyName(args);
			await using paddock = await openStore(shell);
			const look = () => paddock.checkHost(name, { wrap: wrapOf(args), signal });
			let found = await look();
			if (args.has("install") && found.checks.some((one) => one.name === "agent" && !one.ok)) {
				await install(paddock, name, args, shell, signal);
				found = await look();
			}
			for (const one of found.checks) {
				const fix = one.fix === undefined ? "" : ` (${one.fix})`;
				printLine(shell.stdout, `${one.ok ? "ok " : "no "} ${one.name}: ${one.detail}${fix}`);
			}
			return found.ok ? 0 : 1;
		}),
};

const installCommand: Command = {
	name: "host install",
	operands: "<name>",
	summary: "bring the agent to a machine's cache, checked",
	details: `Into paddock below ~/.cache (or XDG_CACHE_HOME) there, in a folder named by its checksum; boxes on that machine start from it. Several may install at
once: one sends, the others wait. Without --archive, the agent that npm installed here is sent.`,
	options: {
		archive: {
			value: "<file>",
			help: "a package of the agent as npm publishes it (.tgz), for another machine's kind",
		},
		sha256: { value: "<hex>", help: "the archive's checksum; one that differs is refused" },
		...WRAP_OPTION,
	},
	examples: [{ line: "paddock host install big", says: "sends what is missing there" }],
	run: (args, shell) =>
		untilStopped(async (signal) => {
			await using paddock = await openStore(shell);
			await install(paddock, onlyName(args), args, shell, signal);
			return 0;
		}),
};

const remove: Command = {
	name: "host remove",
	operands: "<name>",
	summary: "forget a machine; nothing is changed there",
	options: {},
	examples: [{ line: "paddock host remove big", says: "its boxes end by themselves" }],
	async run(args, shell) {
		const name = onlyName(args);
		await using paddock = await openStore(shell);
		await paddock.removeHost(name);
		printLine(shell.stdout, `Removed ${name}.`);
		return 0;
	},
};

export const hostCommands: readonly Command[] = [add, list, check, installCommand, remove];

/** Ctrl-C ends what was started on the other machine, then us. */
async function untilStopped(work: (signal: AbortSignal) => Promise<number>): Promise<number> {
	const stop = new AbortController();
	let exitCode = 0;
	using _interrupts = onInterrupt((asked) => {
		exitCode = asked.exitCode;
		stop.abort();
	});
	try {
		return await work(stop.signal);
	} catch (error) {
		if (stop.signal.aborted) return exitCode;
		throw error;
	}
}

async function install(
	paddock: Paddock,
	name: string,
	args: Arguments,
	shell: Shell,
	signal: AbortSignal,
): Promise<void> {
	const [archive, sha256] = [args.text("archive"), args.text("sha256")];
	if ((archive === undefined) !== (sha256 === undefined))
		throw new UsageError("--archive and --sha256 go together: nothing unchecked is installed.", "bad_option");
	const onProgress = (percent: number) => {
		if (shell.stderr.isTTY) shell.stderr.write(`\r${name}: ${percent} %${percent === 100 ? "\n" : ""}`);
	};
	const { path, version, isNew } = await paddock.installHost(name, {
		...{ wrap: wrapOf(args), onProgress, signal },
		...(archive === undefined
			? {}
			: { archive: { path: resolve(shell.directory, archive), sha256: sha256! } }),
	});
	const what = isNew ? "Installed" : "Already there:";
	printLine(shell.stdout, `${what} OpenCode ${version} on ${name}: ${path}`);
}

function wrapOf(args: Arguments): string[] {
	return (args.text("wrap") ?? "").split(/\s+/).filter((word) => word !== "");
}

function onlyName(args: Arguments): string {
	const [name, ...rest] = args.operands;
	if (name !== undefined && rest.length === 0) return name;
	throw new UsageError("Which machine? Name one: see paddock host list.", "bad_option");
}

function tableOf(hosts: readonly Host[], width: number): string[] {
	const titles = ["name", "address", "agent"];
	return layOut(
		titles.map((title) => ({ title })),
		[
			["local", "this machine", here()],
			...hosts.map(({ name, address, agent }) => [
				name,
				address,
				agent?.version ?? "brought by the first box",
			]),
		],
		width,
	);
}

function here(): string {
	try {
		return findAgentBinary();
	} catch (error) {
		return (error as Error).message;
	}
}
