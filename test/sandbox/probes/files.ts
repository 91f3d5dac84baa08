import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { PassThrough } from "node:stream";
import { never, type Probe, shell } from "./probe.ts";

const readOnly = (path: string) =>
	shell(`write to ${path}`, `touch ${path}/x`, /Read-only file system|Permission denied/);

export const fileProbes: Probe[] = [
	shell("list the host root's home", "ls /root", /No such file/),
	shell("read /etc/shadow", "cat /etc/shadow", /No such file/),
	shell("read the host's accounts", "wc -l < /etc/passwd", /^2$/),
	...["/usr", "/usr/bin", "/etc", "/.", "/opt/agent", "/run/box", "/dev", "/home"].map(readOnly),
	shell("overwrite the agent's binary", "echo x > /opt/agent/opencode", /Read-only|Permission denied|busy/),
	shell("replace the init", "rm -f /opt/agent/init.ts; mv /tmp /tmp2", /Read-only|busy/),
	shell("replace the control socket", "rm -f /run/box/ctl.sock", /Read-only/),
	shell("look into /sys", "ls /sys", /No such file/),
	shell("walk out through /proc/1/root", "ls /proc/1/root/ | tr '\\n' ' '", /Permission denied/),
	shell(
		"walk up from home",
		"cd ../../../../../..; pwd; ls",
		/^\/\n(bin|dev|etc|home|lib|lib64|opt|proc|run|sbin|tmp|usr|\n)+$/,
	),
	shell("write through /proc/1/root", "touch /proc/1/root/usr/x", /Read-only|Permission denied/),
	shell(
		"find device nodes",
		"find /dev -type b; find /dev -type c -printf '%f\\n' | grep -vxE 'null|zero|full|random|urandom|tty|ptmx|[0-9]+'",
		/^\(nothing/,
	),
	shell("open the controlling terminal", "exec 3<>/dev/tty", /No such device|Permission denied/),
	shell("make a device node", "mknod /tmp/sda b 8 0", /not permitted/),
	shell("give a file away", "touch /tmp/gift; chown 0 /tmp/gift", /Invalid argument|not permitted/),
	shell("run a setuid program", "su -c 'echo uid $(id -u)' < /dev/null || echo refused", /^refused/),
	shell(
		"make a setuid copy of a shell",
		"cp /bin/bash /tmp/rootsh; chmod 6755 /tmp/rootsh; /tmp/rootsh -p -c 'id -u'",
		/^1000$/,
	),
	shell(
		"hard link the agent's binary",
		"ln /opt/agent/opencode /tmp/linked",
		/Invalid cross-device|not permitted/,
	),
	shell("leave a core dump", "ulimit -c", /^0$/),
	never("see host paths in the mount table", "cat /proc/self/mountinfo", () => process.cwd()),
	never("see host paths on pid 1's command line", "cat /proc/1/cmdline", () => process.cwd()),
	never("see the host's user", "cat /proc/self/mountinfo /etc/passwd", () => `/home/${userInfo().username}`),
	{
		name: "write core_pattern, which runs programs as the host's root",
		run: async ({ box }) => {
			const file = "/proc/sys/kernel/core_pattern";
			const before = await readFile(file, "utf8");
			const { stderr } = await box.exec(`echo '|/tmp/evil' > ${file}`);
			const unchanged = (await readFile(file, "utf8")) === before;
			return { contained: unchanged && /denied|Read-only|not permitted/.test(stderr), seen: stderr.trim() };
		},
	},
	shell("press the magic key", "echo b > /proc/sysrq-trigger", /denied|No such|Read-only|not permitted/),
	shell("set kernel parameters", "echo 1 > /proc/sys/kernel/sysrq", /denied|No such|Read-only|not permitted/),
	{
		name: "have the host read a link to its shadow file",
		run: async ({ box }) => {
			await box.exec("ln -sf /etc/shadow report.txt");
			const code = await box.readFile("report.txt").catch((error) => error.code);
			return { contained: code === "link_refused", seen: String(code) };
		},
	},
	{
		name: "have the host write through a linked folder",
		run: async ({ box }) => {
			await box.exec("rm -rf out; ln -s /root out");
			const code = await box.writeFile("out/planted-by-box", "x").catch((error) => error.code);
			return { contained: code !== undefined && !existsSync("/root/planted-by-box"), seen: String(code) };
		},
	},
	{
		name: "pack a link out of the box and have it followed elsewhere",
		run: async ({ box, neighbour }) => {
			await box.exec("mkdir -p trap; ln -sfn /root trap/folder; ln -sf /etc/shadow trap/file");
			const pipe = new PassThrough();
			await Promise.all([box.pack(pipe, { paths: ["trap"] }), neighbour.unpack(pipe)]);
			const { stdout } = await neighbour.exec("cat trap/file 2>/dev/null; readlink trap/file");
			return { contained: stdout === "/etc/shadow\n", seen: "still a link, dangling" };
		},
	},
	{
		name: "read a neighbour's files",
		run: async ({ box, neighbour }) => {
			await neighbour.writeFile("/tmp/neighbour", "secret");
			await neighbour.writeFile("neighbour", "secret");
			const { stdout } = await box.exec("cat /tmp/neighbour neighbour 2>/dev/null; ls /run/box /run");
			return {
				contained: !stdout.includes("secret") && !stdout.includes(neighbour.id),
				seen: "own sockets only",
			};
		},
	},
	{
		name: "have the host's own commands run planted programs",
		run: async ({ box }) => {
			const trap = "#!/bin/sh\ntouch /home/user/sprung\n";
			for (const name of ["tar", "bash", "bin/tar", ".local/bin/tar"])
				await box.writeFile(name, trap, { executable: true });
			for (const name of [".bashrc", ".profile", ".bash_profile", ".tarrc"]) await box.writeFile(name, trap);
			await box.writeFile("bunfig.toml", 'preload = ["/home/user/.profile"]\n');
			await box.exec("echo hi");
			await box.pack(new PassThrough().resume(), { paths: ["bunfig.toml"] });
			const sprung = await box.exists("sprung");
			await box.exec("rm -rf tar bash bin .local .bashrc .profile .bash_profile bunfig.toml");
			return { contained: !sprung, seen: sprung ? "it ran" : "none ran" };
		},
	},
];
