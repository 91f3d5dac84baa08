import { readFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pipeline } from "node:stream/promises";
import type { ClientChannel } from "ssh2";
import { writePrivate } from "../../agent/keeper/home.ts";
import { WORK_THERE } from "../../agent/keeper/reached.ts";
import { agentFiles, CONFIG_FOLDER } from "../../agent/opencode-config.ts";
import { messageOf } from "../../errors.ts";
import { requireAgent } from "../../host/ssh/agent.ts";
import { connectSsh, type SshConnection, withLifeline } from "../../host/ssh/connection.ts";
import { endMarked, endRecorded, recorded } from "../../host/ssh/leftovers.ts";
import { quote } from "../../host/ssh/quote.ts";
import type { Errand } from "./elsewhere.ts";
import { makeHome } from "./home-there.ts";

/**
 * Has OpenCode serve on another machine, and is its server here: what comes to our port goes to its own, what it asks of the gateway
 * comes back by the same connection, and what it says is our output. Whatever ends us ends it, with all that it started.
 */
const LOOPBACK = "127.0.0.1";
const CONFIG = `${CONFIG_FOLDER}/opencode.json`;
/** Of our own surroundings, which the keeper made for a server in its home here. */
const PASSED_ON = /^(OPENCODE_\w+|HOME|TERM|TMPDIR|LANG|LC_ALL|TZ|PADDOCK_SERVER_MARK)$/;

const { agentId, address, agent } = JSON.parse(process.argv[2]!) as Errand;
const port = Number(process.argv.at(-1));
const home = process.env.HOME!;
let isListening = false;
const agentMark = `PADDOCK_AGENT_ID=${agentId}`;
const startMark = `PADDOCK_SERVER_MARK=${process.env.PADDOCK_SERVER_MARK}`;

try {
	process.exitCode = await serveThere();
} catch (error) {
	process.stderr.write(`${messageOf(error)}\n`);
	process.exitCode = 1;
}
process.exit();

async function serveThere(): Promise<number> {
	await using connection = await connectSsh(address);
	await requireAgent(connection, agent);
	const there = await makeHome(connection, agentId);
	await writePrivate(home, WORK_THERE, `${there}/work`);
	// One whose connection was lost without a word may still be there.
	await connection.script(endRecorded(`${there}/server.pid`) + endMarked(agentMark));
	// Nothing of the account's surroundings but where its programs are.
	const channel = await connection.start('env -i PATH="$PATH" /bin/sh -s');
	const ended = new Promise<number>((resolve) => {
		channel.once("exit", (code: number | null) => channel.once("close", () => resolve(code ?? 1)));
		void connection.closed.then((words) => {
			process.stderr.write(`${words}\n`);
			resolve(1);
		});
	});
	for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => channel.end());
	channel.stderr.pipe(process.stderr);
	createInterface({ input: channel }).on("line", (line) => pass(connection, line));
	channel.write(withLifeline(await toScript(connection, there), endMarked(startMark)));
	const code = await ended;
	// Its shell commands have groups of their own; those of the next start are none of ours.
	await connection.script(endMarked(startMark)).catch(() => {});
	return code;
}

/** Its own line is said of our port; what it says later of others is no business of ours. */
function pass(connection: SshConnection, line: string): void {
	const [whole, theirs] = /http:\/\/127\.0\.0\.1:(\d+)/.exec(line) ?? [];
	if (isListening || whole === undefined || !line.includes("listening on"))
		return void process.stdout.write(`${line}\n`);
	isListening = true;
	const server = createServer((socket) => {
		connection.connect(Number(theirs)).then(
			(channel) => joinStreams(socket, channel),
			() => socket.destroy(),
		);
	});
	server.listen(port, LOOPBACK, () => {
		const { port: ours } = server.address() as AddressInfo;
		process.stdout.write(`${line.replace(whole, `http://${LOOPBACK}:${ours}`)}\n`);
	});
}

/** Files and secrets go by its input, never among arguments that others can see. */
async function toScript(connection: SshConnection, there: string): Promise<string> {
	const config = await configThere(connection);
	const files = [...agentFiles(), { path: CONFIG, content: config }].map(({ path, content }) => {
		const target = quote(`${there}/${path}`);
		return `mkdir -p "$(dirname ${target})" && echo ${toBase64(content)} | base64 -d > ${target} || exit 1`;
	});
	const variables = Object.entries(process.env)
		.filter(([name]) => PASSED_ON.test(name))
		.map(([name, value = ""]) => `export ${name}=${quote(value.replaceAll(home, there))}`);
	return `
umask 077
${files.join("\n")}
cd ${quote(there)} || exit 1
${variables.join("\n")}
export ${agentMark}
${recorded(`${there}/server.pid`)} ${quote(agent.path)} serve --hostname ${LOOPBACK} --port 0
`;
}

/** The gateway is at a port of that machine's loopback, which leads here. */
async function configThere(connection: SshConnection): Promise<string> {
	const text = await readFile(join(home, CONFIG), "utf8");
	const gateway = /http:\/\/127\.0\.0\.1:(\d+)\/v1/.exec(text);
	if (gateway === null) throw new Error("the configuration names no gateway on this machine");
	const theirs = await connection.listen((channel) =>
		joinStreams(connect(Number(gateway[1]), LOOPBACK), channel),
	);
	return text.replace(gateway[0], `http://${LOOPBACK}:${theirs}/v1`);
}

function joinStreams(one: NodeJS.ReadWriteStream, other: ClientChannel): void {
	// Whichever end breaks, the other one learns it.
	void pipeline(one, other, one).catch(() => {});
}

function toBase64(text: string): string {
	return Buffer.from(text).toString("base64");
}
