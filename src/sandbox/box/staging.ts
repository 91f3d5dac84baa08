import { createHash, randomBytes } from "node:crypto";
import { existsSync, lstatSync, readlinkSync } from "node:fs";
import { copyFile, link, mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { requireOwnFolder } from "../lease/own-folder.ts";
import { joinModules } from "./join-modules.ts";
import { AGENT_PATH } from "./launch.ts";
import { RUN_UNTRUSTED, runUntrustedTool } from "./run-untrusted.ts";

/** What every local box is built from, under neutral names that any uid can reach. */
export interface Staged {
	agent: string;
	init: string;
	runUntrusted: string;
	etc: string;
	/** Folders of the host's /etc that hold nothing personal. */
	etcFolders: string[];
	/** /bin and its kin, as the host has them. */
	links: { from: string; to: string }[];
}

/** In the package everything is JavaScript, this program's parts, too. */
const EXTENSION = import.meta.url.endsWith(".ts") ? "ts" : "js";
const INIT_ENTRY = fileURLToPath(new URL(`./init/main.${EXTENSION}`, import.meta.url));
let init: Buffer | undefined;

/** The program every box begins with. */
export function initProgram(): Buffer {
	init ??= Buffer.from(joinModules(INIT_ENTRY));
	return init;
}

export const ETC: Record<string, string> = {
	passwd: "root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:1000:1000:user:/home/user:/bin/bash\n",
	group: "root:x:0:\nuser:x:1000:\n",
	hosts: "127.0.0.1 localhost sandbox\n::1 localhost\n",
	"resolv.conf": "",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
};
/** What was staged longer ago than this, by somebody else, is removed. */
const KEPT_MS = 3_600_000;
const ETC_FOLDERS = ["/etc/ssl", "/etc/alternatives"];

/** Names carry a hash of their content, so several programs and versions can share one folder. */
export async function stage(root: string, agentBinary: string, foreignUid = true): Promise<Staged> {
	await requireOwnFolder(root, 0o711);
	const [agent, init, runUntrusted, etc] = await Promise.all([
		foreignUid ? stageAgent(root, agentBinary) : agentBinary,
		stageInit(root),
		stageFile(root, RUN_UNTRUSTED, runUntrustedTool(AGENT_PATH)),
		stageEtc(root),
	]);
	await tidy(root, [agent, init, runUntrusted]);
	const etcFolders = ETC_FOLDERS.filter((folder) => existsSync(folder));
	return { agent, init, runUntrusted, etc, etcFolders, links: rootLinks() };
}

/**
 * Other installations and versions leave theirs behind, the agent at 185 MB. Running boxes have mounted the files they
 * use, and whoever still needs a name stages it again, so age alone decides. Not so for folders: what is removed from a
 * mounted one is gone inside too.
 */
async function tidy(root: string, ours: string[]): Promise<void> {
	for (const name of await readdir(root)) {
		const path = join(root, name);
		if (!/^(agent|init|run-untrusted)-[0-9a-f]{16}/.test(name) || ours.includes(path)) continue;
		const age = Date.now() - (lstatSync(path, { throwIfNoEntry: false })?.ctimeMs ?? Date.now());
		if (age > KEPT_MS) await rm(path, { force: true });
	}
}

/** A hard link where that is possible, else one copy: the binary's own folder may be closed to the box's uid. */
async function stageAgent(root: string, binary: string): Promise<string> {
	const { dev, ino, size, mtimeMs } = await stat(binary);
	const target = join(root, `agent-${digest(`${dev} ${ino} ${size} ${mtimeMs}`)}`);
	// A link is whole at once, and renaming one onto another link to the same file would leave both.
	await link(binary, target).catch(() => {});
	if (existsSync(target)) return target;
	const partial = `${target}.${randomBytes(4).toString("hex")}`;
	await copyFile(binary, partial);
	await rename(partial, target);
	return target;
}

/** Its name says what it is written in: the runtime goes by that. */
export function stageInit(root: string): Promise<string> {
	return stageFile(root, "init", initProgram(), ".ts");
}

async function stageFile(root: string, name: string, content: Uint8Array, ending = ""): Promise<string> {
	const target = join(root, `${name}-${digest(content)}${ending}`);
	if (existsSync(target)) return target;
	const partial = `${target}.${randomBytes(4).toString("hex")}`;
	await writeFile(partial, content, { mode: 0o555 });
	await rename(partial, target);
	return target;
}

async function stageEtc(root: string): Promise<string> {
	const files: [string, Uint8Array][] = Object.entries(ETC).map(([name, text]) => [name, Buffer.from(text)]);
	if (existsSync("/etc/ld.so.cache")) files.push(["ld.so.cache", await readFile("/etc/ld.so.cache")]);
	const target = join(root, `etc-${digest(Buffer.concat(files.map(([, content]) => content)))}`);
	if (existsSync(target)) return target;
	const partial = `${target}.${randomBytes(4).toString("hex")}`;
	await mkdir(partial, { mode: 0o755 });
	for (const [name, content] of files) await writeFile(join(partial, name), content, { mode: 0o444 });
	for (const folder of ETC_FOLDERS) await mkdir(join(partial, folder.slice("/etc/".length)), { mode: 0o755 });
	try {
		await rename(partial, target);
	} catch (error) {
		await rm(partial, { recursive: true });
		if (!existsSync(target)) throw error;
	}
	return target;
}

function rootLinks(): Staged["links"] {
	return ["/bin", "/lib", "/lib64", "/sbin"].flatMap((from) => {
		const isLink = lstatSync(from, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
		return isLink ? [{ from, to: readlinkSync(from) }] : [];
	});
}

function digest(content: string | Uint8Array): string {
	return createHash("sha256").update(content).digest("hex").slice(0, 16);
}
