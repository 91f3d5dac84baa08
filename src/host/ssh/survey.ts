import { RolloutError } from "../../errors.ts";
import { optionOf, type SshAddress } from "./address.ts";
import type { CommandLimits, SshConnection } from "./connection.ts";

/** What boxes will find on the other machine. */
export interface Machine {
	/** As `uname -sm` says it. */
	system: string;
	/** As npm's packages of the agent say it. */
	arch: string;
	/** Which of the agent's builds fits. */
	kind: { musl: boolean; avx2: boolean };
	/** Where everything of ours lies there. */
	cache: string;
	/** False: bubblewrap is missing or does not work there. */
	bwrap: boolean;
	/** Folders of its /etc that hold nothing personal. */
	etcFolders: string[];
	/** /bin and its kin, as it has them. */
	links: { from: string; to: string }[];
}

const MACHINES: Record<string, string> = { x86_64: "x64", aarch64: "arm64" };

/**
 * What can be asked of any POSIX shell. Nothing is made for root. The cache is the account's own: whoever could make its folder first
 * could change programs between a look and their start. bubblewrap is tried out: some machines have it and forbid it.
 */
const SURVEY = `
echo "machine=$(uname -sm)"
[ "$(id -u)" = 0 ] && echo root=yes && exit
umask 077
case "$XDG_CACHE_HOME" in /*) c="\${XDG_CACHE_HOME%/}/paddock" ;; *) c="$HOME/.cache/paddock" ;; esac
mkdir -p "$c/boxes" && [ -O "$c" ] && [ ! -L "$c" ] && chmod go-w "$c" && echo "cache=$c"
for l in bin lib lib64 sbin; do [ -L /$l ] && echo "link=/$l $(readlink /$l)"; done
for d in /etc/ssl /etc/alternatives; do [ -d $d ] && echo "etc=$d"; done
for p in bash tar git rg flock; do command -v $p >/dev/null || echo "lacks=$p"; done
grep -qw avx2 /proc/cpuinfo && echo avx2=yes
ldd --version 2>&1 | grep -qi musl && echo musl=yes
if [ -x /usr/bin/bwrap ] && [ -x /usr/bin/prlimit ] && [ -x /usr/bin/setpriv ]; then
	/usr/bin/bwrap --unshare-all --unshare-user --disable-userns --ro-bind / / true 2>&1 && echo bwrap=works
fi
`;

/** Looks the machine over; one that can hold no boxes is refused, in words. */
export async function surveyMachine(connection: SshConnection, limits?: CommandLimits): Promise<Machine> {
	const facts = parse((await connection.script(SURVEY, limits)).stdout);
	const system = facts.get("machine")?.[0] ?? "silent machine";
	const arch = MACHINES[system.split(" ")[1] ?? ""];
	if (!system.startsWith("Linux ") || arch === undefined)
		throw unsuitable(`it is a ${system}, not Linux on x86_64 or aarch64`);
	if (facts.has("root")) throw unsuitable("the login is root; use an account without privileges");
	const lacks = facts.get("lacks") ?? [];
	if (lacks.length > 0) throw unsuitable(`it lacks ${lacks.join(", ")}: install them there`);
	const cache = facts.get("cache")?.[0];
	if (cache === undefined)
		throw unsuitable("its folder paddock below XDG_CACHE_HOME or ~/.cache cannot be made, or is not its own");
	return {
		...{ system, arch, cache },
		kind: { musl: facts.has("musl"), avx2: facts.has("avx2") },
		bwrap: facts.has("bwrap"),
		etcFolders: facts.get("etc") ?? [],
		links: (facts.get("link") ?? []).map((line) => {
			const [from = "", to = ""] = line.split(" ");
			return { from, to };
		}),
	};
}

/** Boxes without isolation are for those who ask for them. */
export function requireWalls({ bwrap }: Machine, address: SshAddress): void {
	if (bwrap || address.allowPlain) return;
	throw new RolloutError(
		"sandbox",
		"ssh_no_walls",
		`bubblewrap does not work on ${address.host}: install it there, or ${optionOf(address, "allowPlain")} to run without isolation`,
	);
}

export function unsuitable(why: string): RolloutError {
	return new RolloutError("sandbox", "ssh_unsuitable", `the machine cannot hold boxes: ${why}`);
}

function parse(text: string): Map<string, string[]> {
	const facts = new Map<string, string[]>();
	for (const line of text.split("\n")) {
		const [, name, value] = /^([a-z0-9]+)=(.*)$/.exec(line) ?? [];
		if (name !== undefined) facts.set(name, [...(facts.get(name) ?? []), value ?? ""]);
	}
	return facts;
}
