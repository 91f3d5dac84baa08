import { existsSync } from "node:fs";
import { messageOf } from "../../errors.ts";
import { findAgentBinary } from "../../host/binary.ts";
import { BoxSpec } from "../../model/task.ts";
import type { Availability, Backend, Sandbox } from "../sandbox.ts";
import { planCgroup } from "./cgroup.ts";

type Check = Availability["checks"][number];

const PROGRAMS = [
	{ path: "/usr/bin/bwrap", package: "bubblewrap" },
	{ path: "/usr/bin/prlimit", package: "util-linux" },
	{ path: "/usr/bin/setpriv", package: "util-linux" },
	{ path: "/usr/bin/tar", package: "tar" },
	{ path: "/usr/bin/rg", package: "ripgrep" },
	{ path: "/usr/bin/git", package: "git" },
];

/** What the kernel or bubblewrap says, and what to do about it. */
const KNOWN_FIXES: { when: RegExp; fix: string }[] = [
	{
		when: /setting up uid map: Permission denied|Failed RTM_NEWADDR: Operation not permitted/,
		fix:
			"Ubuntu restricts user namespaces: give /usr/bin/bwrap an AppArmor profile with the rule `userns,` and reload it " +
			"(apparmor_parser -r), or run: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
	},
	{
		when: /No permissions to creat(e|ing) new namespace|unprivileged_userns_clone|Creating new namespace failed: Operation not permitted/,
		fix: "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1; inside a container, start it with --security-opt seccomp=unconfined or use the docker sandbox",
	},
	{
		when: /max_user_namespaces|No space left on device/,
		fix: "allow more user namespaces: sysctl user.max_user_namespaces=15000",
	},
	{
		when: /Unknown option|unrecognized option/,
		fix: "bubblewrap is too old: 0.8 or newer is needed (for --disable-userns)",
	},
	{
		when: /Can't mount proc|mounting proc/i,
		fix: "this machine is itself a container that hides parts of /proc: start it with --security-opt systempaths=unconfined, or use the docker sandbox",
	},
];

/** Looks at each part, then opens a real box and probes it from inside. */
export async function selfTest(backend: Backend): Promise<Availability> {
	if (process.platform !== "linux") return unavailable("platform", process.platform, "use --sandbox docker");
	const parts = [...PROGRAMS.map(checkProgram), checkAgent(), await checkLimits()];
	const required = parts.filter((part) => part.name !== "limits");
	if (required.some((part) => !part.ok)) return { ok: false, checks: parts };
	const inside = await checkInside(backend);
	return { ok: inside.every((check) => check.ok), checks: [...parts, ...inside] };
}

function checkProgram({ path, package: name }: (typeof PROGRAMS)[number]): Check {
	if (existsSync(path)) return { name: name === "util-linux" ? path : name, ok: true, detail: path };
	return { name, ok: false, detail: `${path} is missing`, fix: `apt-get install ${name}` };
}

function checkAgent(): Check {
	try {
		return { name: "agent binary", ok: true, detail: findAgentBinary() };
	} catch (error) {
		return { name: "agent binary", ok: false, detail: messageOf(error), fix: "npm install" };
	}
}

/** A box works without, but then one box can starve the others. */
async function checkLimits(): Promise<Check> {
	const { version, note } = await planCgroup("self-test");
	if (version !== "none") return { name: "limits", ok: true, detail: `cgroup ${version}: ${note}` };
	const fix = "run as root, or in a delegated cgroup v2: systemd-run --user --scope -p Delegate=yes …";
	return { name: "limits", ok: false, detail: note, fix };
}

const PROBE = [
	"id -u",
	"grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t' | tr '\\n' ' '",
	"cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c '^NODE\\|^npm_\\|^SSH_\\|^OPENAI' ",
	"ls /sys/class/net 2>/dev/null | grep -vc '^lo$'; tail -n +3 /proc/net/dev | grep -vc 'lo:'",
	"touch /usr/x /x 2>/dev/null && echo writable || echo read-only",
].join("; echo --; ");

async function checkInside(backend: Backend): Promise<Check[]> {
	try {
		await using box = await backend.open({
			spec: BoxSpec.parse({ diskMb: 16 }),
			onGateway: (c) => c.destroy(),
		});
		return [
			{ name: "opens a box", ok: true, detail: "bubblewrap with every protection" },
			...(await probe(box)),
		];
	} catch (error) {
		const detail = messageOf(error);
		const known = KNOWN_FIXES.find(({ when }) => when.test(detail));
		return [{ name: "opens a box", ok: false, detail, ...(known === undefined ? {} : { fix: known.fix }) }];
	}
}

async function probe(box: Sandbox): Promise<Check[]> {
	const { stdout } = await box.exec(PROBE, { timeoutMs: 10_000 });
	const [uid = "", status = "", environ = "", network = "", root = ""] = stdout
		.split("--\n")
		.map((part) => part.trim());
	const holds = (name: string, ok: boolean, detail: string): Check => ({ name, ok, detail });
	return [
		holds("no privileged uid inside", uid === "1000", `uid ${uid}`),
		holds("no capabilities, seccomp on", /CapEff:0+ CapBnd:0+ NoNewPrivs:1 Seccomp:2/.test(status), status),
		holds("no host environment inside", environ === "0", `${environ} host variables seen`),
		holds("no network inside", network.split("\n").at(-1) === "0", "loopback only"),
		holds("read-only system", root === "read-only", root),
	];
}

function unavailable(name: string, detail: string, fix: string): Availability {
	return { ok: false, checks: [{ name, ok: false, detail, fix }] };
}
