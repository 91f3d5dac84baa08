import { stat } from "node:fs/promises";
import { userInfo } from "node:os";
import { join, resolve } from "node:path";
import { type Config, loadConfig } from "../../config.ts";
import { UsageError } from "../../errors.ts";
import { ConversationRequest, type ConversationRow } from "../../model/conversation.ts";
import { kindOf } from "../../model/id.ts";
import { POLICY_NAMES } from "../../policy/names.ts";
import { isFolder, readFolder } from "../../task/folder.ts";
import type { Arguments, Command } from "../command.ts";
import { warnOn } from "../open-here.ts";
import { MODEL_OPTIONS, toEndpointSpec, toSampling } from "../run/model-options.ts";
import { requireEndpoint } from "../run/preflight.ts";
import { SANDBOX_OPTIONS, toSandbox } from "../run/sandbox-options.ts";
import { toServerTrouble } from "../run/server-trouble.ts";
import { printLine, type Shell } from "../shell.ts";
import { paintFor, printable } from "../terminal/style.ts";
import { Chat } from "./chat.ts";
import { History } from "./history.ts";
import { openLocalPartner, openServerPartner, type Partner, type SaidMessage } from "./partner.ts";
import { VERBOSITIES } from "./tools.ts";

const PERMISSIONS = ["ask", "allow", "deny"] as const;
/** Large, and made anew where they are needed. */
const LEFT_OUT = [".git", "node_modules", ".venv", "__pycache__"];
const FOLDER_LABEL = "chat-folder";

export const chat: Command = {
	name: "chat",
	operands: "[folder|conversation]",
	summary:
		"talk to an agent, in a box unless it is a kept one: text as it is written, permissions, interrupts",
	details: `The agent works in the folder itself and can reach nothing else of this machine; with --copy, or on a server, it works on
a copy, and your own files stay as they are. /diff shows what it changed with a tool.
What it wants to do is asked for (y once, a always, n with a reason), unless --permission says otherwise.
Ctrl-C interrupts, twice it leaves. What was said and done is kept: --resume goes on from there.`,
	options: {
		agent: {
			value: "<name>",
			help: "a kept agent (paddock agent list) instead of one in a box: it has no walls",
		},
		resume: { help: "go on with the last conversation of this folder, or with the one that is named" },
		...Object.fromEntries(Object.entries(MODEL_OPTIONS).filter(([name]) => name !== "trace")),
		permission: {
			value: "<rule>",
			choices: PERMISSIONS,
			help: `for what it wants to do: ${PERMISSIONS.join(", ")} (default ask)`,
		},
		verbosity: {
			value: "<level>",
			choices: VERBOSITIES,
			help: `of tools: ${VERBOSITIES.join(", ")} (default lines)`,
		},
		copy: { help: "work on a copy of the folder's files (without .git, node_modules, .venv)" },
		...SANDBOX_OPTIONS,
		server: { value: "<url>", help: "on this Paddock server instead of in this process" },
	},
	examples: [
		{ line: "paddock chat . --endpoint openai", says: "about the files of this folder" },
		{ line: "paddock chat --resume", says: "go on where you left" },
		{ line: "paddock chat . --agent aide", says: "with an agent that is kept on this machine" },
		{ line: "paddock chat --policy noop", says: "with a scripted model: no key, no network" },
		{
			line: "paddock chat --base-url http://127.0.0.1:8001/v1 --model Qwen/Qwen3-8B --verbosity verbose",
			says: "a local vLLM, with all that its tools say",
		},
	],
	async run(args, shell) {
		if (!shell.stdin.isTTY || !shell.stdout.isTTY)
			throw new UsageError(
				"paddock chat needs a terminal; programs use /api/v1/conversations.",
				"no_terminal",
			);
		const server = args.text("server");
		const place = placeOf(args, shell);
		const config = loadConfig(shell.env, shell.directory);
		const request = args.has("resume") ? null : await toRequest(args, shell, config, place.folder);
		if (request?.endpoint !== undefined && server === undefined)
			await requireEndpoint(request.endpoint, config.env);
		try {
			await using partner =
				server === undefined
					? await openLocalPartner(config, warnOn(shell), { adopt: request === null })
					: openServerPartner(server, shell.env);
			const row =
				request === null ? await resume(partner, place, args, shell) : await partner.converse(request);
			return await talk(partner, row, args, shell, config);
		} catch (error) {
			throw server === undefined ? error : toServerTrouble(error, server);
		}
	},
};

async function talk(
	partner: Partner,
	{ id, lastSeq, sessionId, status, phase }: ConversationRow,
	args: Arguments,
	shell: Shell,
	config: Config,
): Promise<number> {
	const history = new History(join(config.home, "chat-history"));
	const conversation = new Chat({
		...{ id, partner, shell, sessionId, me: userInfo().username, history: history.read() },
		remember: (text) => history.add(text),
		isReady: status === "open" && phase === "agent",
		verbosity: args.choice("verbosity", VERBOSITIES) ?? "lines",
		goodbye: `To go on: paddock chat --resume ${id}`,
	});
	const isNew = !args.has("resume");
	const asked = isNew || status !== "open" ? [] : await partner.pending(id);
	const ended = await conversation.run(isNew ? 0 : lastSeq, asked);
	if (ended === null) return 0;
	printLine(
		shell.stderr,
		`The conversation has ended: ${printable(ended)}. To go on: paddock chat --resume ${id}`,
	);
	return 1;
}

interface Place {
	folder: string | null;
	conversation: string | null;
}

function placeOf(args: Arguments, shell: Shell): Place {
	const [operand, ...rest] = args.operands;
	if (rest.length > 0) throw new UsageError("One folder, or one conversation.", "bad_option");
	if (operand === undefined) return { folder: null, conversation: null };
	if (kindOf(operand) === "conversation") return { folder: null, conversation: operand };
	return { folder: resolve(shell.directory, operand), conversation: null };
}

async function toRequest(
	args: Arguments,
	shell: Shell,
	config: Config,
	folder: string | null,
): Promise<ConversationRequest> {
	if (folder !== null && !(await isFolder(folder)))
		throw new UsageError(`${folder} is no folder.`, "bad_option");
	return ConversationRequest.parse({
		...(args.has("agent") ? keptAgent(args, folder) : await inBox(args, shell, config, folder)),
		agent: { permission: args.choice("permission", PERMISSIONS) ?? "ask" },
		labels: { [FOLDER_LABEL]: labelOf(folder ?? shell.directory) },
	});
}

async function inBox(args: Arguments, shell: Shell, config: Config, folder: string | null): Promise<object> {
	return {
		endpoint: toEndpointSpec(args, shell.env, POLICY_NAMES),
		sampling: toSampling(args),
		sandbox: toSandbox(args) ?? config.sandbox,
		...(await filesOf(folder, args.has("copy") || args.has("server"))),
	};
}

/** It has its own models and no box; on a server there is no such folder. */
function keptAgent(args: Arguments, folder: string | null): object {
	const clash = [...Object.keys(MODEL_OPTIONS), "copy", "sandbox"].find((name) => args.has(name));
	if (clash !== undefined)
		throw new UsageError(
			`--agent and --${clash} contradict each other: a kept agent has its own models, and no box.`,
			"contradiction",
		);
	if (folder !== null && args.has("server"))
		throw new UsageError("A kept agent of a server cannot work in a folder of yours.", "contradiction");
	return { keptAgent: args.text("agent"), ...(folder === null ? {} : { folder }) };
}

/** The folder itself, or what is in it; on a server there is no such folder. */
async function filesOf(folder: string | null, isCopy: boolean): Promise<object> {
	if (folder === null) return {};
	if (isCopy) return { files: await readFolder(folder, folder, LEFT_OUT) };
	if ((await stat(folder)).uid === 0)
		throw new UsageError(
			`${folder} belongs to root, and no agent works as root: give --copy, or another folder.`,
			"folder_refused",
		);
	return { folder };
}

/** With what was said before, for the person to see where they were. */
async function resume(
	partner: Partner,
	{ folder, conversation }: Place,
	args: Arguments,
	shell: Shell,
): Promise<ConversationRow> {
	const value = labelOf(folder ?? shell.directory);
	const found =
		conversation === null
			? await partner.newest({ name: FOLDER_LABEL, value })
			: await partner.find(conversation);
	if (found === null)
		throw new UsageError(
			conversation === null
				? `There is no conversation of ${value} to go on with.`
				: `There is no conversation ${conversation}.`,
			"not_found",
		);
	for (const line of retold(await partner.messages(found.id), shell)) printLine(shell.stdout, line);
	const variable = args.text("api-key-env");
	return found.status === "closed"
		? await partner.reopen(found.id, variable === undefined ? undefined : shell.env[variable])
		: found;
}

const RETOLD = 20;

function retold(messages: readonly SaidMessage[], shell: Shell): string[] {
	const paint = paintFor(shell.stdout, shell.env);
	return messages.slice(-RETOLD).flatMap(({ info, parts }) => {
		const said = parts.filter(({ type, synthetic }) => type === "text" && synthetic !== true);
		const text = printable(said.map((part) => String(part.text ?? "")).join("\n")).trimEnd();
		if (text === "") return [];
		return info.role === "user" ? ["", `${paint("cyan", "›")} ${paint("bold", text)}`, ""] : text.split("\n");
	});
}

function labelOf(folder: string): string {
	return folder.slice(-500);
}
