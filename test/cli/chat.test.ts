import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { openPolicyServer } from "../../src/policy/server.ts";
import { freePort, startDaemon } from "../fixtures/daemon.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, say, task } from "../fixtures/script.ts";
import { makeOwnFolder } from "../sandbox/own-folder.ts";
import { hasTmux, Terminal } from "./terminal.ts";

const LAUNCHER = fileURLToPath(new URL("../../bin/paddock.mjs", import.meta.url));
const API_KEY = "sk-chat-0123456789";
const LONG = 180_000;

const STEPS = [
	say("Good day.\nI am the first\nof many lines."),
	bash("echo written > /home/user/workdir/made.txt; cat /home/user/workdir/README.md"),
	say("I looked: it is about geese."),
	bash("rm -rf /home/user/workdir"),
	say("Then I leave everything in place."),
	bash("sleep 600"),
	say("Still here, and the geese are too."),
];

test("a conversation in a real terminal: send, approve, reject with a reason, interrupt, leave, come back, quit", {
	timeout: 2 * LONG,
}, async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	await using place = await openPlace();
	const chat = (more: string) =>
		place.open(`chat ${more} --base-url ${place.baseUrl} --model m --api-key-env KEY`);
	{
		using terminal = chat("geese --copy");
		const screen = shown(terminal);
		await screen.toMatch(/^> ?$/m);
		terminal.type("Hello");
		await screen.toMatch(/› Hello\n+Good day\.\nI am the first\nof many lines\./);

		terminal.type("What is this about?");
		await screen.toMatch(/\? The agent wants to use bash\n\s+echo written .*\n\s+y once\s+a always\s+n no/);
		terminal.press("y");
		await screen.toMatch(/Permitted: bash[\s\S]*✓ bash {2}echo written[\s\S]*it is about geese\./);

		terminal.type("Clean up.");
		await screen.toMatch(/wants to use bash\n\s+rm -rf/);
		terminal.press("n");
		await screen.toMatch(/^why not\?/m);
		terminal.type("the geese live there");
		await screen.toMatch(
			/Denied: the geese live there[\s\S]*✗ bash {2}rm -rf[\s\S]*Then I leave everything in place\./,
		);

		terminal.type("Wait a while.");
		await screen.toMatch(/wants to use bash\n\s+sleep 600/);
		terminal.press("y");
		await screen.toMatch(/… bash {2}sleep 600/);
		// Narrower and wider again: nothing is torn.
		terminal.resize(50, 40);
		await screen.toMatch(/working \d+ s/);
		terminal.resize(110, 40);
		terminal.press("C-c");
		await screen.toMatch(/Interrupted\./);
		await screen.toMatch(/^> ?$/m);
		terminal.type("/quit");
		await screen.toMatch(/To go on: paddock chat --resume cnv_\w+/);
		await screen.toMatch(/left with 0/);
		expect(
			terminal
				.lines()
				.join("\n")
				.match(/Good day\./g),
		).toHaveLength(1);
	}
	{
		using terminal = chat("geese --resume");
		const screen = shown(terminal);
		await screen.toMatch(/› Hello\n+Good day\.[\s\S]*it is about geese\./);
		await screen.toMatch(/^> ?$/m);
		// What was said is at hand.
		terminal.press("Up");
		terminal.press("Up");
		await screen.toMatch(/^> Clean up\./m);
		terminal.press("C-u");
		terminal.type("Are you there?");
		await screen.toMatch(/Still here, and the geese are too\./);
		terminal.press("C-c");
		terminal.press("C-c");
		await screen.toMatch(/left with 0/);
	}
	// The folder itself was only read.
	expect(await readFile(join(place.folder, "geese", "README.md"), "utf8")).toBe("# Geese\n");
});

test("in a folder: what the agent writes is there at once, as its owner's, and it goes on there later", {
	timeout: 2 * LONG,
}, async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	await using place = await openPlace([
		...[bash("echo honk > made.txt; cat given"), say("I wrote it down.")],
		...[bash("cat made.txt"), say("It still says so.")],
	]);
	await using own = await makeOwnFolder();
	const open = (more: string) =>
		place.open(`chat ${more} --base-url ${place.baseUrl} --model m --api-key-env KEY`);
	{
		using terminal = open(own.folder);
		const screen = shown(terminal);
		await screen.toMatch(/^> ?$/m);
		terminal.type("Write it down.");
		await screen.toMatch(/wants to use bash\n\s+echo honk/);
		expect(existsSync(join(own.folder, "made.txt"))).toBe(false);
		terminal.press("a");
		await screen.toMatch(/Permitted from now on[\s\S]*I wrote it down\./);
		expect(await readFile(join(own.folder, "made.txt"), "utf8")).toBe("honk\n");
		expect((await stat(join(own.folder, "made.txt"))).uid).toBe((await stat(own.folder)).uid);
		expect(terminal.lines().join("\n")).not.toContain("secret");
		terminal.type("/quit");
		await screen.toMatch(/left with 0/);
	}
	await writeFile(join(own.folder, "made.txt"), "hiss\n");
	{
		using terminal = open(`${own.folder} --resume --verbosity verbose`);
		const screen = shown(terminal);
		await screen.toMatch(/I wrote it down\.[\s\S]*^> ?$/m);
		terminal.type("And now?");
		// What was allowed for always still is; the folder is as it was left, not as it was kept.
		await screen.toMatch(/✓ bash {2}cat made\.txt[\s\S]*hiss[\s\S]*It still says so\./);
		terminal.press("C-c");
		terminal.press("C-c");
		await screen.toMatch(/left with 0/);
	}
});

test("on a server: it works on a copy there, and goes on from another terminal", {
	timeout: 2 * LONG,
}, async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	await using place = await openPlace([
		...[bash("cat README.md; echo changed > README.md"), say("Read and changed.")],
		...[bash("cat README.md"), say("Still changed.")],
	]);
	const port = await freePort();
	await using _server = await startDaemon(["serve", "--port", String(port)], {
		PADDOCK_HOME: join(place.folder, "server"),
		PADDOCK_TOKEN: "token-of-the-server",
	});
	const open = (more: string) =>
		place.open(
			`chat ${more} --server http://127.0.0.1:${port} --base-url ${place.baseUrl} --model m --api-key-env KEY`,
			"PADDOCK_TOKEN=token-of-the-server",
		);
	{
		using terminal = open("geese");
		const screen = shown(terminal);
		await screen.toMatch(/^> ?$/m);
		terminal.type("Read it.");
		await screen.toMatch(/wants to use bash\n\s+cat README\.md/);
		terminal.press("y");
		await screen.toMatch(/✓ bash {2}cat README\.md[\s\S]*Read and changed\./);
		terminal.type("/quit");
		await screen.toMatch(/left with 0/);
	}
	{
		using terminal = open("geese --resume --verbosity verbose");
		const screen = shown(terminal);
		await screen.toMatch(/› Read it\.[\s\S]*Read and changed\.[\s\S]*^> ?$/m);
		terminal.type("Again.");
		await screen.toMatch(/wants to use bash\n\s+cat README\.md/);
		terminal.press("y");
		await screen.toMatch(/changed\n[\s\S]*Still changed\./);
		terminal.press("C-c");
		terminal.press("C-c");
		await screen.toMatch(/left with 0/);
	}
	expect(await readFile(join(place.folder, "geese", "README.md"), "utf8")).toBe("# Geese\n");
});

test("with a kept agent: it works in the folder itself, and goes on in its own session", {
	timeout: 2 * LONG,
}, async (context) => {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	await using place = await openPlace([
		...[bash("pwd; cat README.md; echo honk > made.txt"), say("I wrote it down.")],
		say("It is still about geese."),
	]);
	{
		using terminal = place.open(
			`agent add aide --base-url ${place.baseUrl} --model m --api-key-env KEY --permission ask`,
		);
		await shown(terminal).toMatch(/left with 0/);
	}
	{
		using terminal = place.open("chat geese --agent aide --model m");
		await shown(terminal).toMatch(/--agent and --model contradict each other[\s\S]*left with 2/);
	}
	{
		using terminal = place.open("chat geese --agent aide");
		const screen = shown(terminal);
		await screen.toMatch(/^> ?$/m);
		terminal.type("Write it down.");
		await screen.toMatch(/wants to use bash\n\s+pwd/);
		terminal.press("y");
		await screen.toMatch(/✓ bash {2}pwd[\s\S]*I wrote it down\./);
		terminal.type("/quit");
		await screen.toMatch(/left with 0/);
	}
	expect(await readFile(join(place.folder, "geese", "made.txt"), "utf8")).toBe("honk\n");
	{
		using terminal = place.open("chat geese --resume");
		const screen = shown(terminal);
		await screen.toMatch(/I wrote it down\.[\s\S]*^> ?$/m);
		terminal.type("And now?");
		await screen.toMatch(/It is still about geese\./);
		terminal.press("C-c");
		terminal.press("C-c");
		await screen.toMatch(/left with 0/);
	}
});

const shown = (terminal: Terminal) =>
	expect.poll(() => terminal.lines().join("\n"), { timeout: LONG, interval: 100 });

async function openPlace(steps = STEPS) {
	await using stack = new AsyncDisposableStack();
	const folder = await mkdtemp(join(tmpdir(), "paddock-chat-"));
	stack.defer(() => rm(folder, { recursive: true, force: true }));
	await mkdir(join(folder, "geese"));
	await writeFile(join(folder, "geese", "README.md"), "# Geese\n");
	const policies = stack.use(await openPolicyServer());
	await policies.cast({ policy: "oracle", task: task(), steps }, { model: "m", apiKey: API_KEY });
	const owned = stack.move();
	const env = `NO_COLOR=1 KEY=${API_KEY} PADDOCK_HOME=${join(folder, "data")}`;
	return {
		folder,
		baseUrl: policies.baseUrl,
		open: (args: string, more = "") =>
			new Terminal(
				`cd ${folder} && PATH=${dirname(process.execPath)}:$PATH ${env} ${more} ${process.execPath} ${LAUNCHER} ${args}; echo left with $?`,
				{ columns: 100, rows: 40 },
			),
		[Symbol.asyncDispose]: () => owned.disposeAsync(),
	};
}
