import { expect, test } from "vitest";
import { task } from "../fixtures/script.ts";
import { openStage, scriptAgent } from "./fixture.ts";

const clocks = { createS: 20, setupS: 20, agentS: 60, verifyS: 20, teardownS: 20 };

/**
 * An agent that expects a bad verdict would rather have none. What it did besides is still there: the first verify command finds
 * it, the second fails, and so half of the reward is its due.
 */
const ATTEMPTS: [what: string, script: string][] = [
	["nests 3,000 folders", `perl -e 'for (1..3000) { mkdir "d"; chdir "d" }'`],
	["nests 40,000 folders", `perl -e 'for (1..40000) { mkdir "d"; chdir "d" }'`],
	["nests 4,200 folders with long names", `perl -e '$d = "d" x 250; for (1..4200) { mkdir $d; chdir $d }'`],
	["leaves two large files that take no room", "truncate -s 900M one two"],
	["leaves a large file outside of its workdir", "truncate -s 900M ../one; truncate -s 900M two"],
	["fills the disk", "head -c 2G /dev/zero > full; true"],
	["fills the disk with folders", "for i in $(seq 200); do mkdir -p $i/{1..100}; done"],
	["leaves 60,000 files", "mkdir many && cd many && seq 60000 | xargs touch"],
	["leaves a pipe nobody writes to", "mkfifo pipe && mkdir d && mkfifo d/pipe"],
	["leaves a socket", `perl -MSocket -e 'socket(S,1,1,0);bind(S,pack_sockaddr_un("s"))'`],
	[
		"leaves names with line breaks and no letters",
		"touch $'a\\nb' $'\\x01\\xff' -- -rf '--checkpoint-action=exec=sh'",
	],
	["closes its files", "mkdir d && echo 1 > d/f && chmod 000 d/f d && chmod 000 ."],
	["closes its home", "chmod 000 .."],
	["closes its home for writing", "chmod 555 .. ."],
	["leaves links to everywhere", "ln -s / root; ln -s /dev/zero zero; ln -s loop loop; ln -s ../tests tests"],
	["leaves hard links", "echo x > one && ln one two && mkdir d && ln one d/three"],
	["leaves a set-uid program", "cp /bin/true t && chmod 6755 t"],
	["leaves a very long name", "touch $(printf 'x%.0s' $(seq 255))"],
];

test.each(ATTEMPTS)("an agent that %s gets its verdict", async (_, script) => {
	await using stage = await openStage(scriptAgent(`echo 42 > answer; ${script}`));
	const end = await stage.play(task({ verify: ["grep -q 42 answer", "false"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});

const WITHOUT_WORKDIR: [what: string, script: string][] = [
	["swaps its workdir for a link", "cd .. && rm -rf workdir && ln -s /usr workdir"],
	["swaps its workdir for a file", "cd .. && rm -rf workdir && echo > workdir"],
	["swaps its workdir for a pipe", "cd .. && rm -rf workdir && mkfifo workdir"],
	["removes its home", "cd / && rm -rf /home/user/* /home/user/.[a-z]*"],
];

test.each(WITHOUT_WORKDIR)("an agent that %s is verified without one", async (_, script) => {
	await using stage = await openStage(scriptAgent(script));
	const end = await stage.play(task({ verify: ["test -d .", "test -e answer"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});

const CALLER =
	'while (1) { socket(S, 1, 1 | 2048, 0); connect(S, pack_sockaddr_un("/run/box/ctl.sock")); close S }';

test.each([
	["kills everything it can", "kill -9 -1; true"],
	["stops the first process of its box", "kill -STOP 1 2; kill -9 1 2; true"],
	["forks without end", ":(){ :|:& };:; sleep 1"],
	[
		"calls the host without end",
		`for i in 1 2 3 4; do (setsid perl -MSocket -e '${CALLER}' &); done; sleep 1`,
	],
	[
		"wakes the first process without end",
		`for i in 1 2 3 4; do (setsid perl -e 'while (1) { kill IO => 1 }' &); done; sleep 1`,
	],
])("an agent that %s gets its verdict", async (_, script) => {
	await using stage = await openStage(scriptAgent(`echo 42 > answer; (${script}); true`));
	const end = await stage.play(task({ verify: ["grep -q 42 answer", "false"], clocks, box: { pids: 64 } }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});

/** Each smaller than the init: what the kernel would kill first. */
const HOGS = `perl -MPOSIX -e 'for (1..50) { next if fork; setsid; $x = "x" x (25 << 20); sleep 60; _exit(0) } sleep 3'`;
const MEMFD_CREATE = process.arch === "x64" ? 319 : 279;
const NAMELESS = `perl -e 'open($f, ">&=", syscall(${MEMFD_CREATE}, $n = "x", 0)); while (syswrite $f, "x" x (1 << 20)) {}'`;

test.each([
	["fills its memory with many processes", HOGS],
	["fills its memory with a file that has no name", NAMELESS],
])("an agent that %s gets its verdict", async (_, script) => {
	await using stage = await openStage(scriptAgent(`echo 42 > answer; ${script}; true`));
	const box = { memoryMb: 512, diskMb: 16, pids: 128 };
	const end = await stage.play(task({ verify: ["grep -q 42 answer", "false"], clocks, box }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});

test("a tested program that fills its memory fails its command alone", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const box = { memoryMb: 512, diskMb: 16, pids: 128 };
	const end = await stage.play(task({ verify: [`${HOGS}; false`, "true"], clocks, box }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0.5, failure: null });
});
