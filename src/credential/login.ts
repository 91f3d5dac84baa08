import { createHash } from "node:crypto";
import { z } from "zod";
import { UsageError } from "../errors.ts";
import { learnSecret } from "../log.ts";

/** Where the agent keeps its logins, its settings and its plugins, below its home. */
export const AUTH_FILE = ".local/share/opencode/auth.json";
export const CONFIG_FILE = ".config/opencode/opencode.json";
const PLUGIN = /^\.config\/opencode\/plugins?\/[A-Za-z0-9._-]+$/;
const MANIFEST_VERSION = 1;
const MAX_FILES = 100;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * What a login rests as: a typed document, not an archive. Links, devices and absolute paths do not exist in it, and a
 * path is one of the manifest's.
 */
const LoginDocument = z.strictObject({
	manifestVersion: z.literal(MANIFEST_VERSION),
	files: z
		.array(
			z.strictObject({
				path: z.string().refine(isInManifest, "is no file of an agent's login"),
				sha256: z.string(),
				bytes: z.base64().max(MAX_BYTES),
			}),
		)
		.max(MAX_FILES),
});

/** A token that changes, as the agent keeps it in auth.json. */
const OauthEntry = z.looseObject({
	type: z.literal("oauth"),
	refresh: z.string().min(1),
	access: z.string(),
	/** When `access` ends, in ms since 1970; 0 when nobody knows. */
	expires: z.number(),
});
export type OauthEntry = z.infer<typeof OauthEntry>;
const AuthFile = z.record(z.string(), z.unknown());

export type LoginFiles = ReadonlyMap<string, Buffer>;

export function isInManifest(path: string): boolean {
	return path === AUTH_FILE || path === CONFIG_FILE || (PLUGIN.test(path) && !path.endsWith("/.."));
}

export function writeLogin(files: LoginFiles): string {
	const entries = [...files].map(([path, bytes]) => ({
		path,
		sha256: sha256(bytes),
		bytes: bytes.toString("base64"),
	}));
	return JSON.stringify(LoginDocument.parse({ manifestVersion: MANIFEST_VERSION, files: entries }));
}

export function readLogin(secret: string): LoginFiles {
	const document = LoginDocument.safeParse(parseJson(secret));
	if (!document.success) throw unreadable("it is no login document");
	const files = new Map<string, Buffer>();
	for (const { path, bytes, sha256: expected } of document.data.files) {
		const content = Buffer.from(bytes, "base64");
		if (sha256(content) !== expected || files.has(path)) throw unreadable(`${path} is not what was stored`);
		files.set(path, content);
	}
	return files;
}

/**
 * The provider's tokens in an auth.json that a live agent may be writing; null for what is cut, empty, logged out, or no such file.
 * Whoever logs from now on knows not to print them.
 */
export function wholeEntry(auth: Buffer, provider: string): OauthEntry | null {
	const file = AuthFile.safeParse(parseJson(auth.toString("utf8")));
	const entry = OauthEntry.safeParse(file.data?.[provider]);
	if (!entry.success) return null;
	learnSecret(entry.data.refresh);
	learnSecret(entry.data.access);
	return entry.data;
}

/** The tokens of one provider; whoever logs from now on knows not to print them. */
export function tokensOf(files: LoginFiles, provider: string): OauthEntry {
	const entry = wholeEntry(files.get(AUTH_FILE) ?? Buffer.alloc(0), provider);
	if (entry === null) throw unreadable(`auth.json holds no rotating login for ${provider}`);
	return entry;
}

/** The same login with the provider's new tokens: everything else stays, byte for byte. */
export function withTokens(files: LoginFiles, provider: string, tokens: OauthEntry): LoginFiles {
	learnSecret(tokens.refresh);
	learnSecret(tokens.access);
	const auth = AuthFile.parse(parseJson(String(files.get(AUTH_FILE))));
	const changed = Buffer.from(JSON.stringify({ ...auth, [provider]: tokens }, null, 2));
	return new Map([...files, [AUTH_FILE, changed]]);
}

export function parseJson(text: string): unknown {
	try {
		return JSON.parse(text);
	} catch {
		return undefined;
	}
}

function sha256(bytes: Buffer): string {
	return createHash("sha256").update(bytes).digest("hex");
}

function unreadable(why: string): UsageError {
	return new UsageError(`a stored login cannot be used: ${why}`, "login_unreadable");
}
