import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { type Duplex, PassThrough, Readable, Writable } from "node:stream";
import { afterAll, beforeAll, describe, expect, type TestContext, test, vi } from "vitest";
import { BoxSpec } from "../../src/model/task.ts";
import type { Backend, BoxProcess, OpenOptions, Sandbox } from "../../src/sandbox/sandbox.ts";
import { requirePart } from "../fixtures/parts.ts";
import { wronglyDecided } from "./probes/syscalls.ts";

export interface Subject {
	name: string;
	open(): Promise<Backend>;
	/** Null when everything it needs is here, else how to get it. */
	missing(): Promise<string | null>;
	/** Whether boxes have walls: their own files, processes and network. */
	isolated: boolean;
	/** Merged into every box's specification. */
	spec?: Partial<BoxSpec>;
}

const READERS = {
	"at once": "sha256sum",
	late: "sleep 0.05; sha256sum",
	"bit by bit": "{ for i in 1 2 3; do head -c 100000; sleep 0.02; done; cat; } | sha256sum",
};
/** About a megabyte is where most was lost when anything was: more than every buffer on the way holds. */
const INPUT_SIZES = [0, 1, 65_536, 65_537, ...Array<number>(12).fill(1_000_000), 6_000_000, 6_000_001];

/** The behaviours every backend shows. One box serves the tests that leave it usable. */
export function conformance(subject: Subject): void {
	describe(`a ${subject.name} box`, () => {
		let backend: Backend;
		let box: Sandbox;
		let missing: string | null = null;
		const gateway = new EchoGateway();

		const open = (options: Partial<OpenOptions> = {}) =>
			backend.open({
				spec: BoxSpec.parse({ ...subject.spec }),
				onGateway: (connection, boxId) => gateway.accept(connection, boxId),
				...options,
			});
		const here = (context: TestContext) =>
			requirePart(context, subject.name, missing === null, missing ?? "");

		beforeAll(async () => {
			missing = await subject.missing();
			if (missing !== null) return;
			backend = await subject.open();
			box = await open();
		});
		afterAll(async () => {
			if (missing === null) await backend[Symbol.asyncDispose]();
		});

		describe("exec", () => {
			test("a string runs under bash, and how it ended is data", async (context) => {
				here(context);
				const result = await box.exec('echo "$((40 + 2))"; echo oops >&2; [[ a == a ]] && exit 3');
				expect(result).toMatchObject({ exitCode: 3, signal: null, timedOut: false });
				expect(result).toMatchObject({ stdout: "42\n", stderr: "oops\n", droppedBytes: 0 });
			});

			test("an array runs as it is, without a shell", async (context) => {
				here(context);
				const result = await box.exec(["printf", "%s|", "$HOME", "a b", "*", ""]);
				expect(result.stdout).toBe("$HOME|a b|*||");
			});

			test("a signal is reported as a signal", async (context) => {
				here(context);
				expect(await box.exec("kill -TERM $$")).toMatchObject({ exitCode: null, signal: "SIGTERM" });
			});

			test("a program that is not there is exit code 127", async (context) => {
				here(context);
				const result = await box.exec(["no-such-program-anywhere"]);
				expect(result.exitCode).toBe(127);
				expect(result.stderr).toContain("cannot start");
			});

			test("a folder that is not there is no success", async (context) => {
				here(context);
				const result = await box.exec(["true"], { cwd: "/no/such/folder" });
				expect(result.exitCode).toBe(127);
			});

			test("it starts at home, or where it is told", async (context) => {
				here(context);
				await box.exec("mkdir -p folder");
				expect((await box.exec("pwd")).stdout.trim()).toBe(box.home);
				expect((await box.exec("pwd", { cwd: `${box.home}/folder` })).stdout.trim()).toBe(
					`${box.home}/folder`,
				);
			});

			test("nothing of the host's environment is inherited", async (context) => {
				here(context);
				process.env.PADDOCK_TEST_CANARY = "must-not-travel";
				const { stdout } = await box.exec(["env"], { env: { MINE: "yes" } });
				const names = stdout.split("\n").map((line) => line.split("=")[0]);
				const known = new Set([
					"HOME",
					"BOX_HOME",
					"PATH",
					"LANG",
					"TMPDIR",
					"MINE",
					"PADDOCK_BOX",
					"HOSTNAME",
					"",
				]);
				expect(names.filter((name) => !known.has(name ?? ""))).toEqual([]);
				expect(stdout).toContain("MINE=yes");
				expect(stdout).toContain(`HOME=${box.home}`);
			});

			test("stdin may be text, bytes or a stream, and ends", async (context) => {
				here(context);
				expect((await box.exec("cat", { stdin: "grüße" })).stdout).toBe("grüße");
				const bytes = Buffer.from([0, 255, 10, 0, 128]);
				expect((await box.exec("od -An -tu1", { stdin: bytes })).stdout.trim()).toMatch(
					/^0\s+255\s+10\s+0\s+128$/,
				);
				const stream = Readable.from([Buffer.alloc(3_000_000, "a"), Buffer.alloc(2_000_000, "b")]);
				expect((await box.exec("wc -c", { stdin: stream })).stdout.trim()).toBe("5000000");
				expect((await box.exec("cat")).stdout).toBe("");
			});

			for (const [how, command] of Object.entries(READERS)) {
				test(`no byte of an input is lost on a command that reads it ${how}`, async (context) => {
					here(context);
					for (const size of INPUT_SIZES) {
						const stdin = randomBytes(size);
						const { stdout, exitCode } = await box.exec(command, { stdin });
						expect([exitCode, stdout.slice(0, 64), size]).toEqual([0, sha256(stdin), size]);
					}
				});
			}

			test("input can be reopened by its name, as from a shell's pipe", async (context) => {
				here(context);
				expect((await box.exec("cat /dev/stdin", { stdin: "again" })).stdout).toBe("again");
			});

			test("without input there is none to mistake for some, and outputs can be reopened", async (context) => {
				here(context);
				const result = await box.exec(
					"readlink /proc/self/fd/0; echo out > /dev/stdout; echo err > /dev/stderr",
				);
				expect(result).toMatchObject({ exitCode: 0, stdout: "/dev/null\nout\n", stderr: "err\n" });
			});

			test("startup files in the home folder do not run", async (context) => {
				here(context);
				for (const name of [".bashrc", ".profile", ".bash_profile"])
					await box.writeFile(name, "echo planted\n");
				expect((await box.exec("echo clean")).stdout).toBe("clean\n");
				expect((await box.exec("echo clean", { stdin: "" })).stdout).toBe("clean\n");
				await box.exec("rm .bashrc .profile .bash_profile");
			});

			test("a command that ignores its input still ends", async (context) => {
				here(context);
				const result = await box.exec(["true"], { stdin: Buffer.alloc(8_000_000) });
				expect(result.exitCode).toBe(0);
			});

			test("a timeout ends a command that never reads its input", async (context) => {
				here(context);
				const result = await box.exec("sleep 600", { stdin: Buffer.alloc(8_000_000), timeoutMs: 300 });
				expect(result).toMatchObject({ timedOut: true, exitCode: null, signal: "SIGKILL" });
			});

			test("of too much output the tail is kept and the rest counted", async (context) => {
				here(context);
				const result = await box.exec("head -c 3000000 /dev/zero | tr '\\0' a; echo END", {
					maxOutputBytes: 1000,
				});
				expect(result.stdout).toHaveLength(1000);
				expect(result.stdout.endsWith("aEND\n")).toBe(true);
				expect(result.droppedBytes).toBe(3_000_004 - 1000);
			});

			test("no byte of 20 MB is lost when the command is gone before they are read", async (context) => {
				here(context);
				let bytes = 0;
				const count = (chunk: Buffer) => {
					bytes += chunk.length;
				};
				await box.exec("head -c 20000000 /dev/zero", { stdoutTo: listener(count) });
				expect(bytes).toBe(20_000_000);
			});

			test("output arrives while the command runs", async (context) => {
				here(context);
				const release = new AbortController();
				let seen = "";
				const running = box.exec("echo first; exec sleep 600", {
					signal: release.signal,
					stdoutTo: listener((chunk) => {
						seen += chunk.toString();
						release.abort();
					}),
				});
				await expect(running).rejects.toThrow();
				expect(seen).toBe("first\n");
			});

			test("a slow reader slows the command down instead of filling memory", async (context) => {
				here(context);
				const slow = new SlowSink();
				const running = box.exec("head -c 64000000 /dev/zero; echo done >&2", { stdoutTo: slow });
				await slow.firstChunk;
				expect((await box.exec("pgrep -x head >/dev/null && echo yes")).stdout).toBe("yes\n");
				slow.open();
				expect(await running).toMatchObject({ exitCode: 0, stderr: "done\n" });
				expect(slow.bytes).toBe(64_000_000);
			});

			test("a command whose reader is stuck can still be called off, and its box holds next to nothing", async (context) => {
				here(context);
				const stuck = new SlowSink();
				const controller = new AbortController();
				const running = box.exec("exec head -c 900000000 /dev/zero", {
					stdoutTo: stuck,
					signal: controller.signal,
				});
				running.catch(() => {});
				await stuck.firstChunk;
				const written = "sed -n 's/^wchar: //p' /proc/$(pgrep -x head)/io";
				const settled = `a=-1; b=$(${written}); while [ $a != $b ]; do sleep 0.3; a=$b; b=$(${written}); done; echo $b`;
				expect(Number((await box.exec(settled)).stdout)).toBeLessThan(8_000_000);
				controller.abort();
				await expect(running).rejects.toMatchObject({ name: "AbortError" });
			});

			test("a timeout kills the command with its children", async (context) => {
				here(context);
				const result = await box.exec("sleep 4321 & sleep 4321; echo never", { timeoutMs: 200 });
				expect(result).toMatchObject({ timedOut: true, exitCode: null, signal: "SIGKILL", stdout: "" });
				expect((await box.exec("pgrep -f 'sleep 432[1]'")).stdout).toBe("");
			});

			test("an abort kills the command and rejects", async (context) => {
				here(context);
				const controller = new AbortController();
				const running = box.exec("echo up; exec sleep 5432", {
					signal: controller.signal,
					stdoutTo: listener(() => controller.abort()),
				});
				await expect(running).rejects.toMatchObject({ name: "AbortError" });
				await vanished(box, "sleep 543[2]");
			});

			test("a signal that is already aborted starts nothing", async (context) => {
				here(context);
				await expect(box.exec("touch started", { signal: AbortSignal.abort() })).rejects.toThrow();
				expect(await box.exists("started")).toBe(false);
			});

			test("a background child that holds the pipes does not hold the command", async (context) => {
				here(context);
				const result = await box.exec("sleep 6543 & echo ready");
				expect(result).toMatchObject({ exitCode: 0, stdout: "ready\n" });
				await box.exec("pkill -f 'sleep 654[3]'");
			});

			test("forty commands at once do not mix", async (context) => {
				here(context);
				const numbers = Array.from({ length: 40 }, (_, index) => index);
				const results = await Promise.all(numbers.map((n) => box.exec(`echo ${n}; exit ${n}`)));
				expect(results.map((result) => result.exitCode)).toEqual(numbers);
				expect(results.map((result) => Number(result.stdout))).toEqual(numbers);
			});
		});

		describe("spawn", () => {
			test("a process lives on, speaks, takes a signal and ends", async (context) => {
				here(context);
				await using child = await box.spawn([
					"bash",
					"-c",
					"trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done",
				]);
				const [chunk] = await once(child.stdout, "data");
				expect(String(chunk)).toBe("up\n");
				expect(child.pid).toBeGreaterThan(0);
				await child.kill("SIGTERM");
				expect(await child.exited).toEqual({ exitCode: 9, signal: null });
			});

			test("disposing of it ends it with its children", async (context) => {
				here(context);
				{
					await using child = await box.spawn(["bash", "-c", "sleep 7654 & echo up; sleep 7654"]);
					await once(child.stdout, "data");
				}
				await vanished(box, "sleep 765[4]");
			});

			test("one that cannot start is an error", async (context) => {
				here(context);
				await expect(box.spawn(["no-such-program-anywhere"])).rejects.toMatchObject({ code: "spawn_failed" });
			});

			test("output that nobody reads does not stop it", async (context) => {
				here(context);
				await using child = await box.spawn(["bash", "-c", "head -c 30000000 /dev/zero; exit 5"]);
				expect(await child.exited).toEqual({ exitCode: 5, signal: null });
			});
		});

		describe("connect", () => {
			test("reaches a loopback port inside, both ways", async (context) => {
				here(context);
				await using server = await startServer(box, "c.pipe(c)");
				const connection = await box.connect(server.port);
				connection.write(Buffer.alloc(5_000_000, "x"));
				let bytes = 0;
				for await (const chunk of connection) {
					bytes += chunk.length;
					if (bytes === 5_000_000) break;
				}
				expect(bytes).toBe(5_000_000);
			});

			test("all that a server sent before it hung up arrives", async (context) => {
				here(context);
				await using server = await startServer(box, "c.end(Buffer.alloc(20000000))");
				const connection = await box.connect(server.port);
				expect((await bytesOf(connection)).length).toBe(20_000_000);
			});

			test("all that was sent before hanging up reaches the server", async (context) => {
				here(context);
				const count = "let n=0;c.on('data',d=>n+=d.length);c.on('close',()=>console.log('got',n))";
				await using server = await startServer(box, count);
				const connection = await box.connect(server.port);
				connection.end(Buffer.alloc(20_000_000));
				const [chunk] = await once(server.output, "data");
				expect(String(chunk)).toBe("got 20000000\n");
			});

			test("a process is reached on its port, and nobody who has taken its place there", async (context) => {
				here(context);
				await using server = await startServer(box, "c.end('true')");
				const ask = async (to: { connect(port: number): Promise<Duplex> }) =>
					String(await bytesOf(await to.connect(server.port)));
				expect([await ask(server.process), await ask(box)]).toEqual(["true", "true"]);
				await box.exec(`kill -9 ${server.process.pid}`);
				await using _impostor = await startServer(box, "c.end('false')", server.port);
				expect(await ask(box)).toBe("false");
				await expect(ask(server.process)).rejects.toMatchObject({ code: "port_closed" });
			});

			test("a port nobody listens on is an error", async (context) => {
				here(context);
				await expect(box.connect(9)).rejects.toMatchObject({ code: "port_closed" });
			});
		});

		describe("files", () => {
			test("text and bytes come back as they went in; parents are made", async (context) => {
				here(context);
				await box.writeFile("deep/er/text.txt", "grüße\n");
				expect((await box.readFile(`${box.home}/deep/er/text.txt`)).toString()).toBe("grüße\n");
				const bytes = Buffer.alloc(3_000_001, 7);
				await box.writeFile("deep/bytes", bytes);
				expect((await box.readFile("deep/bytes")).equals(bytes)).toBe(true);
				await box.writeFile("deep/bytes", "");
				expect(await box.readFile("deep/bytes")).toHaveLength(0);
			});

			for (const count of [2_000, 20_000]) {
				test(`${count} files are written in one go, each whole and in its place`, async (context) => {
					here(context);
					const files = Array.from({ length: count }, (_, index) => ({
						path: `many/${index % 97}/${index}.txt`,
						data: `file ${index}\n${"x".repeat(index % 200)}`,
						executable: index % 100 === 0,
					}));
					files.push({ path: "many/large", data: "y".repeat(1_000_000), executable: false });
					await box.writeFiles(files);
					const list =
						"find many -type f | LC_ALL=C sort | xargs cat | sha256sum; find many -type f -perm 755 | wc -l";
					const { stdout } = await box.exec(list);
					const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1));
					const whole = sha256(Buffer.from(sorted.map(({ data }) => data).join("")));
					expect(stdout.split(/\s+/)).toEqual([whole, "-", `${count / 100}`, ""]);
					await box.exec("rm -r many");
				}, 300_000);
			}

			test("of many files, one that cannot be written stops the rest and says why", async (context) => {
				here(context);
				await box.exec("mkdir some && ln -s /etc/hostname some/link");
				const data = "x".repeat(100_000);
				const names = ["first", "link", ...Array.from({ length: 50 }, (_, index) => `later-${index}`)];
				const files = names.map((name) => ({ path: `some/${name}`, data }));
				await expect(box.writeFiles(files)).rejects.toMatchObject({ code: "link_refused" });
				expect((await box.readFile("some/first")).length).toBe(data.length);
				expect((await box.exec("ls some; rm -r some")).stdout).toBe("first\nlink\n");
			});

			test("an executable file can be run", async (context) => {
				here(context);
				await box.writeFile("run.sh", "#!/bin/bash\necho ran\n", { executable: true });
				expect((await box.exec(["./run.sh"])).stdout).toBe("ran\n");
				await box.writeFile("run.sh", "#!/bin/bash\necho ran\n");
				expect((await box.exec(["./run.sh"])).exitCode).toBe(126);
			});

			test("a missing file says so", async (context) => {
				here(context);
				await expect(box.readFile("nowhere")).rejects.toMatchObject({
					boundary: "sandbox",
					code: "file_not_found",
				});
				await expect(box.list("nowhere")).rejects.toMatchObject({ code: "file_not_found" });
				expect(await box.exists("nowhere")).toBe(false);
			});

			test("a link is neither read nor written through", async (context) => {
				here(context);
				await box.exec("echo kept > target; ln -sf target link");
				await expect(box.readFile("link")).rejects.toMatchObject({ code: "link_refused" });
				await expect(box.writeFile("link", "changed")).rejects.toMatchObject({ code: "link_refused" });
				expect((await box.readFile("target")).toString()).toBe("kept\n");
			});

			test("a pipe or a folder is no file, and nothing hangs on it", async (context) => {
				here(context);
				await box.exec("mkfifo pipe; mkdir -p folder");
				await expect(box.readFile("pipe")).rejects.toMatchObject({ code: "not_a_file" });
				await expect(box.writeFile("pipe", "x")).rejects.toMatchObject({ code: "not_a_file" });
				await expect(box.readFile("folder")).rejects.toMatchObject({ code: "not_a_file" });
				await expect(box.writeFile("folder", "x")).rejects.toMatchObject({ code: "not_a_file" });
				await box.exec("rm pipe");
			});

			test("a file larger than allowed is refused", async (context) => {
				here(context);
				await box.writeFile("big", Buffer.alloc(100_000));
				await expect(box.readFile("big", { maxBytes: 99_999 })).rejects.toMatchObject({
					code: "file_too_large",
				});
				expect(await box.readFile("big", { maxBytes: 100_000 })).toHaveLength(100_000);
			});

			test("a folder is listed with types and sizes, deep or not, and within bounds", async (context) => {
				here(context);
				await box.exec(
					"rm -rf l; mkdir -p l/sub; echo 12345 > l/sub/file; ln -s /nowhere l/link; echo x > 'l/ü n'",
				);
				const flat = await box.list("l");
				expect(flat.map(({ path, type }) => [path, type])).toEqual([
					["link", "link"],
					["sub", "directory"],
					["ü n", "file"],
				]);
				const deep = await box.list(`${box.home}/l`, { recursive: true });
				expect(deep.find(({ path }) => path === "sub/file")).toMatchObject({ type: "file", sizeBytes: 6 });
				expect(await box.list("l", { recursive: true, maxEntries: 2 })).toHaveLength(2);
			});

			test("a dangling link exists", async (context) => {
				here(context);
				await box.exec("ln -sf /nowhere/at/all dangling");
				expect(await box.exists("dangling")).toBe(true);
			});
		});

		describe("pack and unpack", () => {
			test("move a home with modes, links and odd names into another box", async (context) => {
				here(context);
				await using other = await open({ role: "verifier" });
				await box.exec(
					"rm -rf p; mkdir -p p/-dash p/skip p/empty; echo a > 'p/-dash/ü \"q\"'; echo s > p/skip/s; " +
						"printf '#!/bin/sh\\n' > p/x; chmod 750 p/x; ln -s ../nowhere p/link; head -c 2000000 /dev/zero > p/zero",
				);
				const pipe = new PassThrough();
				await Promise.all([
					box.pack(pipe, { paths: [`${box.home}/p`], exclude: [`${box.home}/p/skip`] }),
					other.unpack(pipe),
				]);
				const list = "find p -printf '%P %y %m %s %l\\n' | grep -v ' d ' | sort";
				const here_ = (await box.exec(`${list} | grep -v ^skip`)).stdout;
				expect((await other.exec(list)).stdout).toBe(here_);
				expect(await other.exists("p/skip")).toBe(false);
				expect(await other.exists("p/empty")).toBe(true);
			});

			test("without names the whole home is packed, and a locked home unlocks nothing here", async (context) => {
				here(context);
				await using one = await open({ role: "verifier" });
				await using two = await open({ role: "verifier" });
				await one.exec("echo 1 > .hidden; mkdir d; echo 2 > d/f; chmod 500 .");
				const pipe = new PassThrough();
				await Promise.all([one.pack(pipe), two.unpack(pipe)]);
				expect((await two.exec("cat .hidden d/f && touch writable && echo ok")).stdout).toBe("1\n2\nok\n");
				await one.exec("chmod 700 .");
			});

			test("an archive that is none is an error", async (context) => {
				here(context);
				const garbage = Readable.from([Buffer.alloc(20_000, "garbage ")]);
				await expect(box.unpack(garbage)).rejects.toMatchObject({ code: "unpack_failed" });
			});

			test("when packing breaks off, unpacking fails with it instead of waiting or believing it", async (context) => {
				here(context);
				await using one = await open({ role: "verifier" });
				await using two = await open({ role: "verifier" });
				await one.exec("head -c 8000000 /dev/zero > big");
				const pipe = new PassThrough();
				const packing = one.pack(pipe);
				packing.catch(() => {});
				await once(pipe, "readable");
				const unpacking = two.unpack(pipe);
				unpacking.catch(() => {});
				await one[Symbol.asyncDispose]();
				await expect(packing).rejects.toMatchObject({ boundary: "sandbox" });
				await expect(unpacking).rejects.toMatchObject({ boundary: "sandbox", code: "input_failed" });
			});

			test("when nobody takes the output any more, the command ends", async (context) => {
				here(context);
				const to = new PassThrough();
				const running = box.exec("exec -a unread-4711 yes", { stdoutTo: to });
				await once(to, "readable");
				to.destroy();
				await expect(running).rejects.toMatchObject({ code: "output_closed" });
				await vanished(box, "unread-471[1]");
			});

			test("packing what is not there is an error", async (context) => {
				here(context);
				await expect(box.pack(new PassThrough().resume(), { paths: ["absent"] })).rejects.toMatchObject({
					code: "pack_failed",
				});
			});
		});

		describe("the gateway", () => {
			test("answers on its url, and knows which box called", async (context) => {
				here(context);
				await using other = await open();
				expect(await callGateway(box, "hello")).toBe(`${box.id} hello`);
				expect(await callGateway(other, "hello")).toBe(`${other.id} hello`);
			});

			test("carries large bodies and many callers at once", async (context) => {
				here(context);
				const replies = await Promise.all(Array.from({ length: 10 }, (_, n) => callGateway(box, `n${n}`)));
				expect(replies).toEqual(Array.from({ length: 10 }, (_, n) => `${box.id} n${n}`));
				const size = await box.exec(
					`exec 3<>/dev/tcp/127.0.0.1/${portOf(box)}; head -c 2000000 /dev/zero | tr '\\0' z >&3; echo >&3; cat <&3 | wc -c`,
				);
				expect(Number(size.stdout)).toBe(box.id.length + 1 + 2_000_000);
			});

			test("loses nothing of a large answer when it hangs up, nor of a large question", async (context) => {
				here(context);
				let received = 0;
				await using own = await open({
					onGateway: (connection) => {
						connection.on("data", (chunk: Buffer) => {
							received += chunk.length;
							if (received === 10_000_000) connection.end(Buffer.alloc(20_000_000));
						});
					},
				});
				const size = await own.exec(
					`exec 3<>/dev/tcp/127.0.0.1/${portOf(own)}; head -c 10000000 /dev/zero >&3; cat <&3 | wc -c`,
				);
				expect(Number(size.stdout)).toBe(20_000_000);
			});

			test("a crowd of idle callers keeps the host from nothing", async (context) => {
				here(context);
				await using own = await open();
				const { port } = new URL(own.gatewayUrl);
				const crowd = `for i in $(seq 600); do exec {fd}<>/dev/tcp/127.0.0.1/${port} || break; done; echo crowded; exec sleep 600`;
				await using callers = await own.spawn(["bash", "-c", crowd]);
				await once(callers.stdout, "data");
				const answers = await Promise.all(Array.from({ length: 20 }, () => own.exec("echo alive")));
				expect(new Set(answers.map(({ stdout }) => stdout))).toEqual(new Set(["alive\n"]));
				await own.writeFile("note", "still here");
				expect((await own.readFile("note")).toString()).toBe("still here");
			});

			test("is not there for a verifier", async (context) => {
				here(context);
				await using verifier = await open({ role: "verifier" });
				const result = await verifier.exec("exec 3<>/dev/tcp/127.0.0.1/7000");
				expect(result.exitCode).not.toBe(0);
			});
		});

		describe("its life", () => {
			test("killAll ends everything, also what left its group, and the box goes on", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				await own.exec(
					"setsid -f bash -c 'trap \"\" TERM HUP INT; sleep 8765 & wait'; (sleep 8765 &) ; true",
				);
				await using child = await own.spawn(["sleep", "8765"]);
				await own.killAll();
				expect(await child.exited).toEqual({ exitCode: null, signal: "SIGKILL" });
				expect((await own.exec("pgrep -f 'sleep 876[5]'")).stdout).toBe("");
				expect((await own.exec("echo alive")).stdout).toBe("alive\n");
			});

			test("a closed box is gone: commands in flight fail, later ones too, closing again is fine", async (context) => {
				here(context);
				const own = await open({ role: "verifier" });
				const controller = new AbortController();
				const started = new Promise<void>((resolve) => {
					own
						.exec("echo up; exec sleep 9876", {
							signal: controller.signal,
							stdoutTo: listener(() => resolve()),
						})
						.catch((error) => inFlight.push(error.code));
				});
				const inFlight: string[] = [];
				await started;
				await own[Symbol.asyncDispose]();
				await own.closed;
				await own[Symbol.asyncDispose]();
				expect(inFlight).toEqual(["box_closed"]);
				await expect(own.exec("true")).rejects.toMatchObject({ code: "box_closed" });
				await expect(own.readFile("x")).rejects.toMatchObject({ code: "box_closed" });
			});

			test("a box whose init was killed says so", async (context) => {
				here(context);
				if (subject.isolated) return;
				await using own = await open({ role: "verifier" });
				const lost = own.exec("sleep 600");
				lost.catch(() => {});
				void own.exec("kill -9 $PPID").catch(() => {});
				await own.closed;
				await expect(lost).rejects.toMatchObject({ boundary: "sandbox", code: "box_lost", retryable: true });
			});

			test("with walls, no signal from inside ends or stops the init", async (context) => {
				here(context);
				if (!subject.isolated) return;
				await using own = await open({ role: "verifier" });
				expect((await own.exec("cat /proc/1/cmdline")).stdout).toContain("init.ts");
				const storm =
					"kill -9 -1; kill -STOP 1; for n in 1 2 3; do for s in $(seq 29) $(seq 31 64); do kill -$s 1; done; done 2>/dev/null; true";
				await own.exec(storm);
				expect((await own.exec("echo alive")).stdout).toBe("alive\n");
			});

			test("nobody gets at the init's memory, or at a program's that runs it untrusted", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				// Root without walls may look into whatever it likes.
				if (subject.isolated) {
					const tried = await own.exec("head -c 1 /proc/1/mem; exec 3<>/proc/1/mem && echo open");
					expect(tried.stdout).toBe("");
				}
				const inside = "head -c 1 /proc/$1/mem; exec 3<>/proc/$1/mem && echo open";
				const untrusted = await own.exec(`run-untrusted bash -c '${inside}' bash $$`);
				expect(untrusted.stdout).toBe("");
				expect(untrusted.stderr).toMatch(/denied|Read-only/);
			});

			test("run-untrusted keeps tests, reward and home from the program, and gives it the workdir", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				await own.exec(
					"mkdir -p workdir tests logs/verifier && echo hidden > tests/t && echo shown > tests/s",
				);
				const attack =
					'cat "$1/tests/t"; for f in tests/t tests/new logs/verifier/reward.txt .bashrc bin; do echo 1 > "$1/$f"; done; rm -rf "$1/tests"; mv "$1/tests" "$1/workdir/"; ln "$1/tests/t" "$1/workdir/l"; true';
				await own.exec(["run-untrusted", "bash", "-c", attack, "bash", own.home], {
					cwd: `${own.home}/workdir`,
				});
				const { stdout } = await own.exec("ls -A . workdir; cat tests/*; ls logs/verifier");
				expect(stdout).not.toMatch(/bashrc|new|reward/);
				expect(stdout).toContain("shown\nhidden\n");
				const use = "echo 42 > answer; cat answer; echo $0; read line; echo $line; cat $1; exit 3";
				const used = await own.exec(
					["run-untrusted", "--read", "../tests/s", "bash", "-c", use, "me", "../tests/s"],
					{
						cwd: `${own.home}/workdir`,
						stdin: "typed\n",
					},
				);
				expect(used).toMatchObject({ exitCode: 3, stdout: "42\nme\ntyped\nshown\n" });
			});

			test("what run-untrusted started ends with it", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				const leave = "(setsid sleep 987601 &); sleep 987601 & (env -i setsid nohup sleep 987601 &); exit 0";
				const { stdout } = await own.exec(
					`run-untrusted bash -c '${leave}' > /dev/null 2>&1; pgrep -fc 'sleep [9]87601'`,
				);
				expect(stdout).toBe("0\n");
			});

			test("killAll ends also what has taken off its mark and left its session", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				await own.exec(
					"for i in 1 2 3; do (env -i setsid bash -c 'exec -a nomark-987602 sleep 600' > /dev/null 2>&1 < /dev/null &); done",
				);
				const left = "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' '\\n' | grep -c '^nomark-98760[2]'";
				await expect.poll(async () => (await own.exec(left)).stdout).toBe("3\n");
				await own.killAll();
				expect((await own.exec(left)).stdout).toBe("0\n");
			});

			test("a killAll that leaves somebody alive is an error", async (context) => {
				here(context);
				// Without walls the test's own uid may end everybody.
				if (!subject.isolated) return;
				requirePart(context, "root", process.getuid?.() === 0, "only root can put a process into a box");
				await using own = await open({ role: "verifier" });
				{
					await using _stranger = await startStranger(own);
					await expect(own.killAll()).rejects.toMatchObject({ code: "kill_failed", retryable: true });
				}
				await own.killAll();
				expect((await own.exec("echo alive")).stdout).toBe("alive\n");
			});

			test("frozen and thawed it works as before, where it can be frozen", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				await own.freeze();
				await own.thaw();
				expect((await own.exec("echo warm")).stdout).toBe("warm\n");
			});

			test("a frozen box can be closed", async (context) => {
				here(context);
				const own = await open({ role: "verifier" });
				await own.freeze();
				await own[Symbol.asyncDispose]();
				await own.closed;
			});

			test("opening with an aborted signal opens nothing", async (context) => {
				here(context);
				await expect(open({ signal: AbortSignal.abort() })).rejects.toThrow();
			});

			test("says which protections hold", async (context) => {
				here(context);
				expect(box.facts).toMatchObject({ isolation: expect.any(String) });
				expect(box.backend).toBe(subject.name);
			});
		});

		if (!subject.isolated) return;

		describe("its walls", () => {
			test("two boxes share neither files nor processes nor ports", async (context) => {
				here(context);
				await using other = await open({ role: "verifier" });
				await box.writeFile("/tmp/secret", "mine");
				await using server = await startServer(box, "c.pipe(c)");
				expect(await other.exists("/tmp/secret")).toBe(false);
				expect((await other.exec("pgrep -f be.bun")).stdout).toBe("");
				await expect(other.connect(server.port)).rejects.toMatchObject({ code: "port_closed" });
			});

			test("the kernel refuses what a box has no business asking for, and nothing that programs need", async (context) => {
				here(context);
				expect(await wronglyDecided(box)).toEqual([]);
			});

			test("nobody inside takes files, processes, time or processors from the init", async (context) => {
				here(context);
				await using own = await open({ role: "verifier" });
				const attack = `prlimit --pid 1 --nofile=3:3 --nproc=0:0 --fsize=0:0 && echo limited
					taskset -p 1 1 | grep new; renice 19 1; chrt --idle --pid 0 1 && echo idle; true`;
				expect((await own.exec(attack)).stdout).toBe("");
				await own.writeFile("note", "written");
				expect((await own.exec("cat note; cat /proc/self/limits | grep -c ' 3 *3 *files'")).stdout).toBe(
					"written0\n",
				);
			});

			test("the home is where every task expects it, and holds no more than it may", async (context) => {
				here(context);
				await using small = await open({
					role: "verifier",
					spec: BoxSpec.parse({ ...subject.spec, diskMb: 16 }),
				});
				expect(small.home).toBe("/home/user");
				const full = await small.exec("head -c 40000000 /dev/zero > fill; stat -c %s fill");
				expect(Number(full.stdout)).toBeLessThanOrEqual(16 * 1024 * 1024);
				expect(full.stderr).toContain("No space left");
				await expect(small.writeFile("more", Buffer.alloc(100_000))).rejects.toMatchObject({
					code: "disk_full",
				});
			});

			test("an archive cannot write outside the box", async (context) => {
				here(context);
				const hostile = await box.exec(
					"mkdir -p h && cd h && echo x > f && tar -cPf - --transform 's,f,/../../usr/f,' f | base64 -w0",
				);
				await box.unpack(Readable.from([Buffer.from(hostile.stdout, "base64")])).catch(() => {});
				expect(await box.exists("/usr/f")).toBe(false);
			});
		});
	});
}

/** Answers one line with the calling box's id and the same line. */
class EchoGateway {
	accept(connection: Duplex, boxId: string): void {
		let text = "";
		connection.on("data", (chunk: Buffer) => {
			text += chunk.toString();
			if (text.endsWith("\n")) connection.end(`${boxId} ${text.slice(0, -1)}`);
		});
	}
}

async function callGateway(box: Sandbox, line: string): Promise<string> {
	const { stdout } = await box.exec(`exec 3<>/dev/tcp/127.0.0.1/${portOf(box)}; echo ${line} >&3; cat <&3`);
	return stdout;
}

const portOf = (box: Sandbox) => new URL(box.gatewayUrl).port;

/** A server inside; `serve` says what it does with a connection `c`. The agent's binary runs it, so any image will do. */
async function startServer(
	box: Sandbox,
	serve: string,
	at = 0,
): Promise<AsyncDisposable & { port: number; output: Readable; process: BoxProcess }> {
	const program = `const s=require('net').createServer(c=>{${serve}}).listen(${at},'127.0.0.1',()=>console.log(s.address().port))`;
	const child = await box.spawn([box.agentBinary, "-e", program], { cwd: "/", env: { BUN_BE_BUN: "1" } });
	const [chunk] = await once(child.stdout, "data");
	const port = Number(String(chunk));
	return {
		port,
		output: child.stdout,
		process: child,
		[Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
	};
}

/** A process of the machine's root among those of the box: nobody inside may end it. */
async function startStranger(box: Sandbox): Promise<AsyncDisposable> {
	const init = readdirSync("/proc").find((pid) => isFirstOf(box, pid));
	const stranger = spawn("nsenter", ["--target", init!, "--pid", "sleep", "600"], { stdio: "ignore" });
	await vi.waitUntil(async () => (await box.exec("pgrep -fx 'sleep 600'")).stdout !== "");
	return {
		async [Symbol.asyncDispose]() {
			const gone = once(stranger, "exit");
			const [child] = readFileSync(`/proc/${stranger.pid}/task/${stranger.pid}/children`, "utf8").split(" ");
			process.kill(Number(child), "SIGKILL");
			await gone;
		},
	};
}

/** On this machine, where all backends of a test have their boxes. */
function isFirstOf(box: Sandbox, pid: string): boolean {
	try {
		const isInit = readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(`{"boxId":"${box.id}"`);
		return isInit && /^NSpid:.*\t1$/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
	} catch {
		return false;
	}
}

/** The kernel needs a moment between a kill and an empty process table; the box itself waits for it. */
async function vanished(box: Sandbox, pattern: string): Promise<void> {
	const result = await box.exec(`while pgrep -f '${pattern}' > /dev/null; do sleep 0.02; done`, {
		timeoutMs: 10_000,
	});
	expect(result.timedOut).toBe(false);
}

async function bytesOf(connection: Duplex): Promise<Buffer> {
	const chunks: Buffer[] = [];
	for await (const chunk of connection) chunks.push(chunk as Buffer);
	return Buffer.concat(chunks);
}

/** Takes nothing until it is opened. */
class SlowSink extends Writable {
	bytes = 0;
	readonly firstChunk: Promise<void>;
	#arrived!: () => void;
	#opened = false;
	#waiting: (() => void) | null = null;

	constructor() {
		super();
		this.firstChunk = new Promise((resolve) => {
			this.#arrived = resolve;
		});
	}

	open(): void {
		this.#opened = true;
		this.#waiting?.();
	}

	override _write(chunk: Buffer, _encoding: string, done: () => void): void {
		this.bytes += chunk.length;
		this.#arrived();
		if (this.#opened) done();
		else this.#waiting = done;
	}
}

function sha256(bytes: Uint8Array): string {
	return createHash("sha256").update(bytes).digest("hex");
}

function listener(hear: (chunk: Buffer) => void): Writable {
	return new Writable({
		write: (chunk: Buffer, _encoding, done) => {
			hear(chunk);
			done();
		},
	});
}
