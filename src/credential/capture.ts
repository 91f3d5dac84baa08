import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { messageOf, UsageError } from "../errors.ts";
import { AUTH_FILE, CONFIG_FILE, isInManifest, type LoginFiles, parseJson } from "./login.ts";

/** The agent writes auth.json in place: only what reads the same after so long is whole. */
const SETTLE_MS = 200;
const MAX_FILE_BYTES = 1024 * 1024;
const PLUGIN_FOLDERS = [".config/opencode/plugin", ".config/opencode/plugins"];

const Config = z.looseObject({
	model: z.string().optional(),
	small_model: z.string().optional(),
	provider: z
		.record(
			z.string(),
			z.looseObject({ options: z.looseObject({ baseURL: z.string().optional() }).optional() }),
		)
		.optional(),
});
type Config = z.infer<typeof Config>;

/** What an agent's home says of one provider. */
export interface CapturedLogin {
	provider: string;
	/** Its name at the provider. */
	model: string;
	/** Where the provider's models are, if the agent's settings say so. */
	baseUrl: string | null;
	entry: { type: "oauth" } | { type: "api"; key: string };
	/** Logins of that provider and no other, settings, and plugins if they were asked for. */
	files: LoginFiles;
}

export interface CaptureOptions {
	/** `provider/model`, instead of what the agent's settings say. */
	model?: string | undefined;
	/** Plugins are programs: they come along only when asked for. */
	plugins?: boolean | undefined;
}

/** Reads a login out of a live agent's home, and never writes there. Refused with a reason when it could not be used. */
export async function captureLogin(home: string, options: CaptureOptions = {}): Promise<CapturedLogin> {
	const auth = toAuth(await readSettled(join(home, AUTH_FILE)));
	const config = toConfig(await readFileIfThere(join(home, CONFIG_FILE)));
	const model = options.model ?? config.model ?? "";
	const [provider = "", ...rest] = model.split("/");
	const name = rest.join("/");
	if (provider === "" || name === "")
		throw refused("no model is set in its opencode.json as provider/model: give one with --model");
	requireOneProvider(config, provider);
	const files = new Map([
		[AUTH_FILE, Buffer.from(JSON.stringify({ [provider]: auth[provider] }, null, 2))],
		[CONFIG_FILE, Buffer.from(JSON.stringify({ ...config, model }, null, 2))],
		...(options.plugins ? await readPlugins(home) : []),
	]);
	const baseUrl = config.provider?.[provider]?.options?.baseURL ?? null;
	return { provider, model: name, baseUrl, entry: toEntry(auth, provider), files };
}

const Auth = z.record(z.string(), z.looseObject({ type: z.string() }));

function toAuth(bytes: Buffer | null): z.infer<typeof Auth> {
	if (bytes === null) throw refused("it has no auth.json: nobody has logged in there");
	const parsed = Auth.safeParse(parseJson(bytes.toString("utf8")));
	if (!parsed.success) throw refused("its auth.json is half-written, or no auth.json at all");
	if (Object.keys(parsed.data).length === 0)
		throw refused("its auth.json is empty: nobody is logged in there");
	return parsed.data;
}

function toConfig(bytes: Buffer | null): Config {
	if (bytes === null) return {};
	const parsed = Config.safeParse(parseJson(bytes.toString("utf8")));
	if (!parsed.success) throw refused("its opencode.json cannot be read as JSON");
	return parsed.data;
}

/** A login that is two providers' could be taken from one of them without the other's knowing. */
function requireOneProvider(config: Config, provider: string): void {
	const small = config.small_model?.split("/")[0];
	if (small === undefined || small === provider) return;
	throw refused(`its small_model is ${small}'s, its model ${provider}'s: one login is one provider's`);
}

function toEntry(auth: z.infer<typeof Auth>, provider: string): CapturedLogin["entry"] {
	const entry = auth[provider];
	if (entry === undefined)
		throw refused(`nobody is logged in at ${provider} there, only at ${Object.keys(auth).join(", ")}`);
	if (entry.type === "api" && typeof entry.key === "string" && entry.key !== "")
		return { type: "api", key: entry.key };
	if (entry.type === "oauth" && typeof entry.refresh === "string" && entry.refresh !== "")
		return { type: "oauth" };
	throw refused(`its login at ${provider} is neither an API key nor one with a refresh token`);
}

async function readSettled(path: string): Promise<Buffer | null> {
	const first = await readFileIfThere(path);
	if (first === null) return null;
	await delay(SETTLE_MS);
	const second = await readFileIfThere(path);
	if (second !== null && first.equals(second)) return second;
	throw refused("its auth.json is being written just now: try again");
}

async function readPlugins(home: string): Promise<[string, Buffer][]> {
	const found: [string, Buffer][] = [];
	for (const folder of PLUGIN_FOLDERS) {
		for (const name of await readdir(join(home, folder)).catch(() => [])) {
			const path = `${folder}/${name}`;
			const bytes = isInManifest(path) ? await readFileIfThere(join(home, path)) : null;
			if (bytes === null) throw refused(`${path} cannot be taken along: no plain file with a plain name`);
			found.push([path, bytes]);
		}
	}
	return found;
}

/** Null where there is none. A link could lead to anybody's file: it is refused. */
async function readFileIfThere(path: string): Promise<Buffer | null> {
	try {
		await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
		const { size } = await file.stat();
		if (size > MAX_FILE_BYTES) throw refused(`${path} is longer than ${MAX_FILE_BYTES} bytes`);
		return await file.readFile();
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
		if (error instanceof UsageError) throw error;
		throw refused(`${path} cannot be read: ${messageOf(error)}`);
	}
}

function refused(why: string): UsageError {
	return new UsageError(`that home holds no login that can be stored: ${why}`, "capture_refused");
}
