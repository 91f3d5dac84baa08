import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { captureLogin } from "../../src/credential/capture.ts";
import {
	AUTH_FILE,
	CONFIG_FILE,
	isInManifest,
	readLogin,
	tokensOf,
	withTokens,
	writeLogin,
} from "../../src/credential/login.ts";

const OAUTH = { type: "oauth", refresh: "refresh-1", access: "access-1", expires: 5, accountId: "kept" };
const API = { type: "api", key: "sk-12345678" };

let home = "";
beforeEach(async () => {
	home = await mkdtemp(join(tmpdir(), "paddock-capture-"));
});
afterEach(() => rm(home, { recursive: true }));

async function put(path: string, content: string | object): Promise<string> {
	const target = join(home, path);
	await mkdir(dirname(target), { recursive: true });
	await writeFile(target, typeof content === "string" ? content : JSON.stringify(content));
	return target;
}

test("a login is taken with its settings, cut down to the model's provider, and the home stays as it was", async () => {
	const file = await put(AUTH_FILE, { acme: OAUTH, other: API });
	await put(CONFIG_FILE, {
		model: "acme/large/v2",
		theme: "dark",
		provider: { acme: { options: { baseURL: "https://a" } } },
	});
	const before = [await stat(file), await readFile(file, "utf8")] as const;
	const captured = await captureLogin(home);
	expect(captured).toMatchObject({
		provider: "acme",
		model: "large/v2",
		baseUrl: "https://a",
		entry: { type: "oauth" },
	});
	const files = readLogin(writeLogin(captured.files));
	expect(JSON.parse(String(files.get(AUTH_FILE)))).toEqual({ acme: OAUTH });
	expect(JSON.parse(String(files.get(CONFIG_FILE)))).toMatchObject({ model: "acme/large/v2", theme: "dark" });
	const after = await stat(file);
	expect([after.ino, after.mtimeMs, await readFile(file, "utf8")]).toEqual([
		before[0].ino,
		before[0].mtimeMs,
		before[1],
	]);
});

test.for([
	["an empty home", {}, "nobody has logged in"],
	["an auth.json without a login", { [AUTH_FILE]: {} }, "auth.json is empty"],
	["a half-written auth.json", { [AUTH_FILE]: '{"acme": {"type": "oa' }, "half-written"],
	["an auth.json that is a list", { [AUTH_FILE]: "[1, 2]" }, "half-written"],
	["an auth.json that is a number", { [AUTH_FILE]: "7" }, "half-written"],
	["no model", { [AUTH_FILE]: { acme: OAUTH } }, "no model is set"],
	[
		"a model without its provider",
		{ [AUTH_FILE]: { acme: OAUTH }, [CONFIG_FILE]: { model: "large" } },
		"no model is set",
	],
	[
		"a model of another provider",
		{ [AUTH_FILE]: { acme: OAUTH }, [CONFIG_FILE]: { model: "b/large" } },
		"nobody is logged in at b",
	],
	[
		"a small model of another provider",
		{ [AUTH_FILE]: { a: OAUTH, b: API }, [CONFIG_FILE]: { model: "a/x", small_model: "b/y" } },
		"one login is one provider's",
	],
	[
		"an entry of no known kind",
		{ [AUTH_FILE]: { a: { type: "wellknown" } }, [CONFIG_FILE]: { model: "a/x" } },
		"neither",
	],
	["settings that are no JSON", { [AUTH_FILE]: { a: OAUTH }, [CONFIG_FILE]: "{" }, "opencode.json"],
] as const)("%s is refused with a reason", async ([, files, reason]) => {
	for (const [path, content] of Object.entries(files)) await put(path, content);
	await expect(captureLogin(home)).rejects.toMatchObject({
		code: "capture_refused",
		message: expect.stringContaining(reason),
	});
});

test("an auth.json that is being written is not taken for whole", async () => {
	const file = await put(AUTH_FILE, { acme: OAUTH });
	const capturing = captureLogin(home, { model: "acme/large" });
	await writeFile(file, JSON.stringify({ acme: { ...OAUTH, refresh: "refresh-2" } }));
	const outcome = await capturing.then(
		({ files }) => tokensOf(files, "acme").refresh,
		(error: Error) => error.message,
	);
	// Whoever read before the change must have noticed it; whoever read after has the new one.
	expect(outcome).toMatch(/being written|^refresh-2$/);
});

test("a link in the place of a file is refused", async () => {
	await writeFile(join(home, "elsewhere"), JSON.stringify({ acme: OAUTH }));
	await mkdir(dirname(join(home, AUTH_FILE)), { recursive: true });
	await symlink(join(home, "elsewhere"), join(home, AUTH_FILE));
	await expect(captureLogin(home, { model: "acme/x" })).rejects.toMatchObject({ code: "capture_refused" });
});

test("plugins come along only when asked for", async () => {
	await put(AUTH_FILE, { acme: OAUTH });
	await put(".config/opencode/plugin/login.js", "export default {}");
	const model = "acme/x";
	expect([...(await captureLogin(home, { model })).files.keys()]).toEqual([AUTH_FILE, CONFIG_FILE]);
	expect([...(await captureLogin(home, { model, plugins: true })).files.keys()]).toContain(
		".config/opencode/plugin/login.js",
	);
});

test.for([
	"../etc/passwd",
	"/etc/passwd",
	".config/opencode/plugin/../../x",
	".config/opencode/plugin/..",
	".ssh/id_ed25519",
	"",
])("a document that names %s is no login", (path) => {
	expect(isInManifest(path)).toBe(false);
	const file = { path, sha256: "", bytes: "" };
	expect(() => readLogin(JSON.stringify({ manifestVersion: 1, files: [file] }))).toThrow(/no login document/);
});

test("a document whose bytes are not what was stored is refused", () => {
	const document = JSON.parse(writeLogin(new Map([[AUTH_FILE, Buffer.from("{}")]])));
	document.files[0].bytes = Buffer.from("{ }").toString("base64");
	expect(() => readLogin(JSON.stringify(document))).toThrow(/not what was stored/);
	for (const nonsense of ["", "null", "[]", '{"manifestVersion": 2, "files": []}'])
		expect(() => readLogin(nonsense)).toThrow(/no login document/);
});

test("new tokens replace the old ones and nothing else", () => {
	const config = Buffer.from('{ "model": "acme/x" }');
	const files = new Map([
		[AUTH_FILE, Buffer.from(JSON.stringify({ acme: OAUTH }))],
		[CONFIG_FILE, config],
	]);
	const changed = withTokens(files, "acme", {
		...tokensOf(files, "acme"),
		refresh: "refresh-2",
		access: "access-2",
	});
	expect(tokensOf(changed, "acme")).toMatchObject({ refresh: "refresh-2", accountId: "kept" });
	expect(changed.get(CONFIG_FILE)).toBe(config);
	expect(() => tokensOf(changed, "nobody")).toThrow(/no rotating login/);
});
