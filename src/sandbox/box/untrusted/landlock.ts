import { closeSync, constants, openSync, readdirSync, statSync } from "node:fs";
import { systemCall } from "../init/libc.ts";

const CREATE_RULESET = 444;
const ADD_RULE = 445;
const RESTRICT_SELF = 446;
const ASK_VERSION = 1;
const PATH_BENEATH = 1;
const O_PATH = 0x200000;

const EXECUTE = 1;
const WRITE_FILE = 2;
const READ_FILE = 4;
const READ_DIR = 8;
/** Removing, and making of files, folders, sockets and pipes. */
const CHANGE_DIR = 0x07b0;
/** Making of devices and symbolic links: the verifier would follow such a link, to its own tests. Allowed nowhere. */
const MAKE_OTHER = 0x1840;
/** From one folder to another, by a hard link too. */
const MOVE = 0x2000;
const TRUNCATE = 0x4000;
const DEVICE_CONTROL = 0x8000;
/** No signals to, and no abstract sockets of, anybody outside. */
const SCOPES = 3;

const READ = EXECUTE | READ_FILE | READ_DIR;
const USE = READ | WRITE_FILE | TRUNCATE | DEVICE_CONTROL;
const WRITE = USE | CHANGE_DIR;
const OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE_CONTROL;

/** What a confined program may do where; everything that is not named is closed to it. */
export interface Places {
	readable: string[];
	/** Their names may be listed, nothing in them read. */
	listable: string[];
	/** Existing files may be written, none made: devices. */
	usable: string[];
	writable: string[];
	/** Whether what is writable may be moved from one folder to another. */
	mayMove: boolean;
}

/** 0 where the kernel has no Landlock, or an engine's filter forbids it. */
export function landlockVersion(): number {
	return Math.max(0, systemCall(CREATE_RULESET, 0, 0, ASK_VERSION));
}

/**
 * From here on this thread and what it starts see and change only `places`, and can look into or signal no process outside. Nothing
 * takes that back. False where the kernel cannot do it.
 */
export function confine(places: Places): boolean {
	const version = landlockVersion();
	if (version === 0) return false;
	const known = knownAccess(version);
	const attributes = new BigUint64Array([BigInt(known), 0n, BigInt(SCOPES)]);
	const ruleset = systemCall(CREATE_RULESET, attributes, version < 4 ? 8 : version < 6 ? 16 : 24, 0);
	if (ruleset < 0) return false;
	for (const path of places.readable) allow(ruleset, path, READ & known);
	for (const path of places.listable) allow(ruleset, path, READ_DIR);
	for (const path of places.usable) allow(ruleset, path, USE & known);
	const write = places.mayMove ? WRITE | MOVE : WRITE;
	for (const path of places.writable) allow(ruleset, path, write & known);
	const isConfined = systemCall(RESTRICT_SELF, ruleset, 0) === 0;
	closeSync(ruleset);
	return isConfined;
}

function knownAccess(version: number): number {
	const since = [
		[2, MOVE],
		[3, TRUNCATE],
		[5, DEVICE_CONTROL],
	] as const;
	const first = READ | WRITE_FILE | CHANGE_DIR | MAKE_OTHER;
	return since.reduce((all, [from, access]) => (version >= from ? all | access : all), first);
}

/** What is not there, or cannot be opened, need not be allowed. */
function allow(ruleset: number, path: string, access: number): void {
	let descriptor: number;
	try {
		descriptor = openSync(path, O_PATH | constants.O_RDONLY);
	} catch {
		return;
	}
	const rule = Buffer.alloc(16);
	rule.writeBigUInt64LE(BigInt(statSync(path).isDirectory() ? access : access & OF_FILES));
	rule.writeInt32LE(descriptor, 8);
	if (systemCall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0) !== 0) throw new Error(`no rule for ${path}`);
	closeSync(descriptor);
}

/** Everything there is but `hidden` and what lies below it: a rule holds for all below, so their neighbours are named one by one. */
export function allBut(hidden: readonly string[], folder = "/"): string[] {
	if (hidden.includes(folder)) return [];
	const below = folder === "/" ? "/" : `${folder}/`;
	if (!hidden.some((path) => path.startsWith(below))) return [folder];
	try {
		return readdirSync(folder).flatMap((name) => allBut(hidden, `${below}${name}`));
	} catch {
		return [];
	}
}
