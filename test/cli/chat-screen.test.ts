import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { Editor } from "../../src/cli/chat/editor.ts";
import { main } from "../../src/cli/cli.ts";
import { requirePart } from "../fixtures/parts.ts";
import { RecordedShell } from "./shell.ts";
import { hasTmux, Terminal } from "./terminal.ts";

const program = fileURLToPath(new URL("chat-program.ts", import.meta.url));

function open(context: Parameters<typeof requirePart>[0], args = "") {
	requirePart(context, "tmux", hasTmux(), "apt-get install tmux");
	const terminal = new Terminal(`NO_COLOR=1 ${process.execPath} ${program} ${args}`, {
		columns: 60,
		rows: 30,
	});
	const screen = () => expect.poll(() => terminal.lines().join("\n"), { timeout: 20_000, interval: 50 });
	return { terminal, screen, [Symbol.dispose]: () => terminal[Symbol.dispose]() };
}

test("text comes letter by letter and stands once, whatever is typed meanwhile and however wide the screen is", async (context) => {
	// Still clocks: tmux tells the program of its new size a moment after it has reflowed the screen.
	using chat = open(context, "3600000");
	const { terminal, screen } = chat;
	await screen().toMatch(/\/help for help\n> ?$/);
	const long = Array.from({ length: 200 }, (_, index) => String.fromCharCode(97 + (index % 26))).join("");
	terminal.type(`begin ${long}`);
	await screen().toMatch(/working/);
	terminal.press("!");
	for (const columns of [35, 100, 60]) {
		terminal.resize(columns, 30);
		const row = long.slice(0, columns - 1);
		await screen().toContain(`\n${row}\n`);
		// Once as it was typed, once as it is being written.
		expect(terminal.lines().join("").split(long)).toHaveLength(3);
	}
	await screen().toMatch(/working \d+ s · Ctrl-C interrupts\n> !$/);
	terminal.press("BSpace");
	terminal.type("write the end");
	await screen().toMatch(/the end\n\/help for help\n> ?$/);
	expect(terminal.lines().join("").split(long)).toHaveLength(3);
	expect(terminal.isCursorShown).toBe(true);
});

test("one key permits, another denies with a reason, a number answers", async (context) => {
	using chat = open(context);
	const { terminal, screen } = chat;
	await screen().toMatch(/> ?$/);
	terminal.type("ask git push --force");
	await screen().toMatch(/\? The agent wants to use bash\n +git push --force\n +y once +a always +n no/);
	terminal.press("a");
	await screen().toMatch(/Permitted from now on: bash git push[\s\S]*decided \{"reply":"always"\}/);
	terminal.type("ask rm -rf .");
	await screen().toMatch(/rm -rf \.\n +y once/);
	terminal.press("n");
	await screen().toMatch(/why not\? ?$/);
	terminal.type("not the geese");
	await screen().toContain('decided {"reply":"reject","message":"not the geese"}');
	terminal.type("question");
	await screen().toMatch(/The agent asks\n +Which\?\n +1 red/);
	terminal.type("2");
	await screen().toContain('answered [["blue"]]');
});

test("tools, files, differences, models and troubles are shown; what a model wrote steers no terminal", async (context) => {
	using chat = open(context);
	const { terminal, screen } = chat;
	await screen().toMatch(/> ?$/);
	terminal.type("tool npm test");
	await screen().toMatch(/✓ bash +npm test +1\.5 s/);
	terminal.type("/files");
	await screen().toMatch(/geese\.txt +\+1 -1/);
	terminal.type("/diff");
	await screen().toMatch(/-goose\n\+geese/);
	terminal.type("/verbosity verbose");
	terminal.type("tool ls");
	await screen().toMatch(/✓ bash +ls +1\.5 s\n +one\n +two/);
	terminal.type("/model");
	await screen().toContain("/model wants a name, as its endpoint calls it.");
	terminal.type("/model gpt-4o-mini");
	await screen().toContain("From now on: gpt-4o-mini");
	terminal.type("/modle");
	await screen().toContain("There is no /modle: see /help.");
	terminal.type("fail the model is away");
	await screen().toContain("The agent could not go on: the model is away");
	terminal.press("Up");
	await screen().toMatch(/> fail the model is away$/);
	terminal.press("C-u");
	terminal.type("end");
	await screen().toContain("ended: nothing was said for too long");
});

test("Ctrl-C interrupts, and twice it leaves", async (context) => {
	using chat = open(context);
	const { terminal, screen } = chat;
	await screen().toMatch(/> ?$/);
	terminal.type("begin something long");
	await screen().toMatch(/working/);
	terminal.press("C-c");
	await screen().toMatch(/Interrupted\.[\s\S]*Ctrl-C once more to leave/);
	terminal.press("C-c");
	await screen().toMatch(/Good-bye\.\nended: left/);
});

test("a text is edited as in a shell, and what was said before comes back", () => {
	const editor = new Editor(["first", "second"]);
	const type = (text: string) => {
		for (const character of text) editor.press(character, { name: character });
	};
	type("geese 🐘 fly");
	editor.press(undefined, { name: "w", ctrl: true });
	editor.press(undefined, { name: "backspace" });
	editor.press(undefined, { name: "backspace" });
	expect(editor.text).toBe("geese ");
	editor.press(undefined, { name: "a", ctrl: true });
	type("two ");
	expect(editor.text).toBe("two geese ");
	editor.press(undefined, { name: "up" });
	editor.press(undefined, { name: "up" });
	expect(editor.text).toBe("first");
	editor.press(undefined, { name: "down" });
	editor.press(undefined, { name: "down" });
	expect(editor.text).toBe("two geese ");
	// A line that ends in \ goes on, and so does a pasted one.
	editor.press(undefined, { name: "e", ctrl: true });
	type("\\");
	expect(editor.press("\r", { name: "return" })).toBe("none");
	editor.press(undefined, { name: "paste-start" });
	expect(editor.press("\r", { name: "return" })).toBe("none");
	editor.press(undefined, { name: "paste-end" });
	expect(editor.press("\r", { name: "return" })).toBe("send");
	expect(editor.take()).toBe("two geese \n\n");
	expect(editor.text).toBe("");
	for (const odd of ["\x1b[15~", "\x00", undefined]) expect(editor.press(odd, {})).toBe("unknown");
});

test("without a terminal, without a model and in a folder of root's it says what to do instead", async () => {
	const ask = async (argv: string[], isTTY = true) => {
		const shell = new RecordedShell({ env: {}, directory: "/" });
		shell.stdout.isTTY = isTTY;
		return { code: await main(["chat", ...argv], shell), said: shell.stderr.text };
	};
	expect(await ask([], false)).toMatchObject({ code: 2, said: expect.stringContaining("needs a terminal") });
	expect(await ask([])).toMatchObject({ code: 2, said: expect.stringContaining("--policy") });
	expect(await ask(["/etc", "--policy", "noop"])).toMatchObject({
		code: 2,
		said: expect.stringContaining("give --copy"),
	});
	expect(await ask(["/nowhere", "--policy", "noop"])).toMatchObject({ code: 2 });
});
