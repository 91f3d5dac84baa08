import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { agentFiles, CONFIG_FOLDER } from "../opencode-config.ts";

/** The model endpoint a kept server talks to: the gateway with a key of its own, or any other. */
export interface KeptProvider {
	baseUrl: string;
	apiKey: string;
	/** Their names at the endpoint; the agent calls them provider/name. */
	models: string[];
}

export const PROVIDER_ID = "paddock";

/** Writes what OpenCode reads before it starts, for nobody else to read. Says whether the configuration is another than before. */
export async function writeHome(home: string, provider: KeptProvider): Promise<boolean> {
	await makeFolder(home);
	for (const name of ["tmp", "data"]) await makeFolder(join(home, name));
	for (const { path, content } of agentFiles()) await writePrivate(home, path, content);
	return await writePrivate(
		home,
		`${CONFIG_FOLDER}/opencode.json`,
		JSON.stringify(toConfig(provider), null, "\t"),
	);
}

/** Whole or not at all, and never readable by others, not even for an instant. False when it was there already, word for word. */
export async function writePrivate(home: string, path: string, content: string): Promise<boolean> {
	const target = join(home, path);
	await makeFolder(dirname(target));
	if ((await readFile(target, "utf8").catch(() => null)) === content) return false;
	const draft = `${target}.${randomBytes(6).toString("hex")}`;
	const file = await open(draft, "wx", 0o600);
	try {
		await file.writeFile(content);
		await file.sync();
	} finally {
		await file.close();
	}
	await rename(draft, target);
	return true;
}

async function makeFolder(path: string): Promise<void> {
	await mkdir(path, { recursive: true, mode: 0o700 });
}

function toConfig({ baseUrl, apiKey, models }: KeptProvider): object {
	const named = models.map((model) => [
		model,
		{ name: model, tool_call: true, temperature: true, limit: LIMIT },
	]);
	return {
		// Without it OpenCode writes the file anew, with it: then it would always look like another than ours.
		$schema: "https://opencode.ai/config.json",
		...(models[0] === undefined
			? {}
			: { model: `${PROVIDER_ID}/${models[0]}`, small_model: `${PROVIDER_ID}/${models[0]}` }),
		snapshot: false,
		share: "disabled",
		autoupdate: false,
		provider: {
			[PROVIDER_ID]: {
				npm: "@ai-sdk/openai-compatible",
				name: "Paddock",
				options: { baseURL: baseUrl, apiKey },
				models: Object.fromEntries(named),
			},
		},
	};
}

const LIMIT = { context: 128_000, output: 8_192 };
