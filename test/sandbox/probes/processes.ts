import { readdir, readFile } from "node:fs/promises";
import { connect } from "node:net";
import { networkInterfaces } from "node:os";
import { BoxSpec } from "../../../src/model/task.ts";
import type { Sandbox } from "../../../src/sandbox/sandbox.ts";
import { never, type Probe, shell } from "./probe.ts";

const tcp = (host: string, port: number | string) =>
	`timeout 5 bash -c 'exec 3<>/dev/tcp/${host}/${port} && echo connected'`;

export const processProbes: Probe[] = [
	shell("find the host's processes", "ls /proc | grep -cE '^[0-9]+$'", /^[1-9]$/),
	never(
		"find the host's variables in any process",
		"cat /proc/*/environ | tr '\\0' '\\n'",
		({ canary }) => canary,
	),
	shell("inherit open descriptors", "ls /proc/self/fd | tr '\\n' ' '", /^0 1 2 3$/),
	shell(
		"find a first process that is not the init",
		"tr '\\0' '\\n' < /proc/1/cmdline | sed -n 2p",
		/init\.ts$/,
	),
	shell("read the init's memory", "head -c 1 /proc/1/mem", /Permission denied/),
	shell("write to the init's memory", "exec 3<>/proc/1/mem && echo open", /Permission denied|Read-only/),
	shell("write to another process's memory", "sleep 5 & exec 3<>/proc/$!/mem && echo open", /Read-only/),
	shell(
		"write to its own parent's memory",
		"bash -c 'exec 3<>/proc/$PPID/mem && echo open'; true",
		/Read-only/,
	),
	shell("list the init's descriptors", "ls /proc/1/fd", /Permission denied/),
	shell("read the init's variables", "cat /proc/1/environ", /Permission denied|^\(nothing/),
	shell("take the init's descriptors by /proc", "cat < /proc/1/fd/3", /Permission denied/),
	shell(
		"stop or end the init",
		"kill -STOP 1; kill -KILL 1; kill -9 -1; for s in $(seq 29) $(seq 31 64); do kill -$s 1; done 2>/dev/null; echo still here",
		/still here$/,
	),
	shell(
		"have its orphans stay in the table",
		"for i in 1 2 3; do (sleep 0.0$i &); done; sleep 0.5; grep -l zombie /proc/[0-9]*/status; echo none",
		/^none$/,
	),
	shell("make itself harder to kill than the init", "echo 0 > /proc/self/oom_score_adj", /Read-only/),
	shell(
		"hold any privilege",
		"grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t' | tr '\\n' ' '",
		/^CapInh:0+ CapPrm:0+ CapEff:0+ CapBnd:0+ CapAmb:0+ NoNewPrivs:1 Seccomp:2$/,
	),
	shell("become root in a namespace", "unshare -Ur id", /not permitted|No space/),
	shell("learn the host's name", "cat /proc/sys/kernel/hostname", /^sandbox$/),
	shell("read the kernel log", "dmesg", /not permitted/),
	{
		name: "pose as the init with a second hello",
		run: async ({ box }) => {
			const forged = await box.exec(talk('{"hello":1,"pid":1,"ports":[],"hidden":true}'));
			const { stdout } = await box.exec(["echo", "still ours"]);
			return {
				contained: stdout === "still ours\n" && forged.stdout === "closed\n",
				seen: forged.stdout.trim(),
			};
		},
	},
	{
		name: "answer an operation with a guessed nonce",
		run: async ({ box }) => {
			const forged = await box.exec(talk(`{"nonce":"${"A".repeat(24)}"}`));
			return { contained: forged.stdout === "closed\n", seen: forged.stdout.trim() };
		},
	},
	{
		name: "drown the control socket",
		run: async ({ box }) => {
			const before = process.memoryUsage().rss;
			const program =
				"const c=require('net').connect('/run/box/ctl.sock');c.on('error',()=>{});c.on('close',()=>process.exit(7));" +
				"const b=Buffer.alloc(1<<16,97);setInterval(()=>c.destroyed?process.exit(7):c.write(b),1)";
			const flood = await box.exec([box.agentBinary, "-e", program], { cwd: "/", env: { BUN_BE_BUN: "1" } });
			const grown = process.memoryUsage().rss - before;
			return { contained: flood.exitCode === 7 && grown < 90e6, seen: "hung up on" };
		},
	},
	{
		name: "use up the host's descriptors",
		run: async ({ backend }) => {
			const held: { destroy(): void }[] = [];
			const options = { spec: BoxSpec.parse({}), onGateway: (c: { destroy(): void }) => void held.push(c) };
			await using own = await backend.open(options);
			const before = (await readdir("/proc/self/fd")).length;
			const program =
				"let n=0;const net=require('net');for(let i=0;i<3000;i++){const c=net.connect(i%2?'/run/box/ctl.sock':'/run/box/gw.sock');" +
				"c.on('error',()=>{});c.on('connect',()=>n++)};setTimeout(()=>{console.log(n);setInterval(()=>{},1e6)},2000)";
			await using flood = await own.spawn([own.agentBinary, "-e", program], {
				cwd: "/",
				env: { BUN_BE_BUN: "1" },
			});
			await new Promise((resolve) => flood.stdout.once("data", resolve));
			const grown = (await readdir("/proc/self/fd")).length - before;
			const { stdout } = await own.exec(["echo", "answers"]);
			return { contained: grown < 1200 && stdout === "answers\n", seen: `${grown} of 3000 kept` };
		},
	},
	{
		name: "outlive the box in a session of its own",
		run: async ({ backend }) => {
			const spec = BoxSpec.parse({});
			const own = await backend.open({ spec, onGateway: (connection) => connection.destroy() });
			const port = await listenInside(own);
			await own.exec(
				"setsid -f bash -c 'trap \"\" TERM HUP INT; exec -a survivor-of-a-box sleep 987654' </dev/null >/dev/null 2>&1",
			);
			await own[Symbol.asyncDispose]();
			const left = await hostProcesses("survivor-of-a-box");
			return { contained: left === 0 && port > 0, seen: `${left} left on the host` };
		},
	},
];

export const networkProbes: Probe[] = [
	{
		name: "reach a server on the host's loopback",
		run: async ({ box, hostPort }) => {
			await reachableFromHost(hostPort);
			const { stdout, stderr } = await box.exec(tcp("127.0.0.1", hostPort));
			return { contained: stdout === "" && /refused/.test(stderr), seen: "connection refused" };
		},
	},
	{
		name: "reach the host by its own address",
		run: async ({ box, hostPort }) => {
			const own = Object.values(networkInterfaces())
				.flat()
				.find((entry) => entry?.family === "IPv4" && !entry.internal);
			const { stdout, stderr } = await box.exec(tcp(own?.address ?? "192.0.2.1", hostPort));
			return { contained: stdout === "" && /unreachable|refused/.test(stderr), seen: "network unreachable" };
		},
	},
	shell("find an interface besides loopback", "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '", /^lo$/),
	shell("ask a cloud's metadata service", tcp("169.254.169.254", 80), /unreachable/),
	shell("reach the internet", tcp("1.1.1.1", 443), /unreachable/),
	shell("resolve a name", "getent hosts example.com; echo $?", /^2$/),
	{
		name: "connect to an abstract socket of the host",
		run: async ({ box, abstractName }) => {
			const program = `const c=require('net').connect('\\0${abstractName}');c.on('connect',()=>console.log('connected'));c.on('error',e=>console.log(e.code))`;
			const { stdout } = await box.exec([box.agentBinary, "-e", program], {
				cwd: "/",
				env: { BUN_BE_BUN: "1" },
			});
			const { stdout: listed } = await box.exec("cat /proc/net/unix");
			return {
				contained: /refused|ENOENT|ECONN/i.test(stdout) && !listed.includes(abstractName),
				seen: stdout.trim(),
			};
		},
	},
	{
		name: "speak to a neighbour's port",
		run: async ({ box, neighbour }) => {
			const port = await listenInside(neighbour);
			const { stdout, stderr } = await box.exec(tcp("127.0.0.1", port));
			return { contained: stdout === "" && /refused/.test(stderr), seen: "connection refused" };
		},
	},
];

function talk(line: string): string[] {
	const program = `const c=require('net').connect('/run/box/ctl.sock',()=>c.write(${JSON.stringify(`${line}\n`)}));c.on('data',d=>console.log('answered',String(d)));c.on('close',()=>console.log('closed'));c.on('error',()=>{})`;
	return ["env", "BUN_BE_BUN=1", "/opt/agent/opencode", "-e", program];
}

async function listenInside(box: Sandbox): Promise<number> {
	const program =
		"const s=require('net').createServer(()=>{}).listen(0,'127.0.0.1',()=>console.log(s.address().port))";
	const child = await box.spawn([box.agentBinary, "-e", program], { cwd: "/", env: { BUN_BE_BUN: "1" } });
	for await (const chunk of child.stdout) return Number(String(chunk));
	return 0;
}

async function hostProcesses(name: string): Promise<number> {
	let found = 0;
	for (const pid of await readdir("/proc")) {
		if (!/^\d+$/.test(pid)) continue;
		const line = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "");
		if (line.startsWith(name)) found += 1;
	}
	return found;
}

/** A probe that could not succeed anywhere proves nothing. */
function reachableFromHost(port: number): Promise<void> {
	return new Promise((resolve, reject) => {
		const socket = connect(port, "127.0.0.1", () => {
			socket.destroy();
			resolve();
		});
		socket.on("error", reject);
	});
}
