import type { AgentOptions } from "../model/request.ts";

export const OPENCODE_VERSION = "1.18.33";

/** The gateway replaces it by the endpoint's own model, so that a booted agent fits any endpoint. */
const PROVIDER = "paddock";
const MODEL = "model";

/** Where OpenCode keeps its own things below home; none of it belongs to a task. */
export const AGENT_FOLDERS = [
	".config/opencode",
	".local/share/opencode",
	".local/state/opencode",
	".cache/opencode",
];

export const CONFIG_FOLDER = ".config/opencode";

/**
 * Names the agent of each request, so that title and compaction calls are told apart for certain. And keeps what the agent runs from
 * approving itself: its shell is not given the server's password and keys, and nothing of the same user may look into the server.
 */
const PLUGIN = `import { dlopen } from "bun:ffi";

// They have done their work when the program starts, and another version of the runtime would not start with them.
for (const name of Object.keys(process.env)) if (/^BUN_(JSC|GC)_/.test(name)) delete process.env[name];

const PR_SET_DUMPABLE = 4;
const SECRETS = ["OPENCODE_SERVER_PASSWORD", "OPENCODE_CONFIG_CONTENT", "OPENCODE_AUTH_CONTENT"];

try {
	const { symbols } = dlopen("libc.so.6", { prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" } });
	symbols.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
} catch (error) {
	console.error("the server could not be hidden from what it runs:", String(error));
}

// A provider that the agent speaks to itself need not know.
const hasOwnProvider = String(process.env.OPENCODE_CONFIG_CONTENT).includes('"enabled_providers"');

// Whoever reads them by name, as the program does for each folder it works in, finds them; what it starts is given none of them.
for (const name of SECRETS) {
	const value = process.env[name];
	if (value === undefined) continue;
	delete process.env[name];
	Object.defineProperty(process.env, name, { value, enumerable: false, configurable: true, writable: true });
}

export const Paddock = async () => ({
	"chat.headers": async (input, output) => {
		if (hasOwnProvider) return;
		output.headers["x-paddock-agent"] = String(input.agent?.name ?? input.agent ?? "");
	},
	"shell.env": async (input, output) => {
		for (const name of SECRETS) output.env[name] = "";
	},
});
`;

/**
 * An agent lives for minutes and most of its code runs a few times: what the compiler would win it never gets back, and its heap is
 * given back with the box. An unknown name keeps the program from starting, so these belong to the pinned version alone.
 */
const RUNTIME = {
	BUN_JSC_thresholdForOptimizeAfterWarmUp: "5000",
	BUN_JSC_thresholdForOptimizeAfterLongWarmUp: "5000",
	BUN_JSC_thresholdForOptimizeSoon: "5000",
	BUN_JSC_thresholdForFTLOptimizeAfterWarmUp: "1000000",
	BUN_JSC_thresholdForFTLOptimizeSoon: "1000000",
	BUN_JSC_largeHeapSize: "268435456",
	BUN_JSC_percentCPUPerMBForEdenTimer: "0.00001",
	BUN_JSC_percentCPUPerMBForFullTimer: "0.00001",
	BUN_GC_TIMER_DISABLE: "1",
};

/** Keeps OpenCode from installing its plugin package from a registry at every start; versions must agree. */
const DEPENDENCIES = { dependencies: { "@opencode-ai/plugin": OPENCODE_VERSION } };
const LOCK = { name: "x", lockfileVersion: 3, requires: true, packages: { "": DEPENDENCIES } };

/** Files below home that must be there before OpenCode starts. */
export function agentFiles(): { path: string; content: string }[] {
	return [
		{ path: `${CONFIG_FOLDER}/package.json`, content: JSON.stringify(DEPENDENCIES) },
		{ path: `${CONFIG_FOLDER}/package-lock.json`, content: JSON.stringify(LOCK) },
		{ path: `${CONFIG_FOLDER}/node_modules/.keep`, content: "" },
		{ path: `${CONFIG_FOLDER}/plugin/paddock.js`, content: PLUGIN },
		{ path: `${CONFIG_FOLDER}/models.json`, content: "{}" },
	];
}

/** How the agent comes to its model. */
export interface ModelAccess {
	/** At the gateway. */
	key: string;
	/** Its own instead, with a login that lies in its home: `provider/model`. */
	ownModel?: string | undefined;
}

export interface AgentPlace extends ModelAccess {
	home: string;
	gatewayUrl: string;
}

export function agentEnvironment(
	options: AgentOptions,
	place: AgentPlace,
	password: string,
): Record<string, string> {
	const { ownModel } = place;
	return {
		...(ownModel === undefined ? serverEnvironment : ownServerEnvironment)(place.home, password),
		...RUNTIME,
		OPENCODE_CONFIG_CONTENT: JSON.stringify(
			ownModel === undefined ? gatewayConfig(options, place) : ownConfig(options, ownModel),
		),
		OPENCODE_PERMISSION: JSON.stringify(permissions(options)),
		...(options.compaction ? {} : { OPENCODE_DISABLE_AUTOCOMPACT: "1" }),
	};
}

/** The fast and offline settings, without anything of the host's. */
export function serverEnvironment(home: string, password: string): Record<string, string> {
	return {
		HOME: home,
		TERM: "dumb",
		OPENCODE_SERVER_PASSWORD: password,
		OPENCODE_MODELS_PATH: `${home}/${CONFIG_FOLDER}/models.json`,
		OPENCODE_DISABLE_AUTOUPDATE: "1",
		OPENCODE_DISABLE_MODELS_FETCH: "1",
		OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
		OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
		OPENCODE_DISABLE_FFF: "1",
		OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER: "1",
		OPENCODE_DISABLE_CLAUDE_CODE: "1",
		OPENCODE_DISABLE_EXTERNAL_SKILLS: "1",
		OPENCODE_DISABLE_PROJECT_CONFIG: "1",
		OPENCODE_DISABLE_SHARE: "1",
	};
}

/** With the list of models and the plugins that the agent comes with: its provider may be one of theirs. */
export function ownServerEnvironment(home: string, password: string): Record<string, string> {
	const { OPENCODE_MODELS_PATH: _, ...rest } = serverEnvironment(home, password);
	return { ...rest, OPENCODE_DISABLE_DEFAULT_PLUGINS: "0" };
}

function commonConfig(options: AgentOptions, model: string): object {
	return {
		model,
		small_model: model,
		snapshot: false,
		share: "disabled",
		autoupdate: false,
		compaction: { auto: options.compaction },
		agent: options.title ? {} : { title: { disable: true } },
	};
}

/** Where the provider is, and what its models are, is said by the settings that came with the login. Our plugin knows it by its one provider. */
function ownConfig(options: AgentOptions, model: string): object {
	return { ...commonConfig(options, model), enabled_providers: [model.split("/")[0]] };
}

function gatewayConfig(options: AgentOptions, place: AgentPlace): object {
	return {
		...commonConfig(options, `${PROVIDER}/${MODEL}`),
		provider: {
			[PROVIDER]: {
				npm: "@ai-sdk/openai-compatible",
				name: "Paddock",
				options: {
					baseURL: `${place.gatewayUrl}/v1`,
					apiKey: place.key,
					// The gateway has the sharper clocks; these only catch a gateway that is gone.
					headerTimeout: 900_000,
					chunkTimeout: 900_000,
				},
				models: {
					[MODEL]: {
						name: "Model",
						tool_call: true,
						temperature: true,
						limit: { context: options.contextTokens, output: options.outputTokens },
					},
				},
			},
		},
	};
}

/** What changes something. */
const ASKED = ["bash", "edit", "webfetch", "external_directory", "doom_loop"];

type Decided = Pick<AgentOptions, "permission" | "permissionRules">;

/**
 * For an agent that nobody of ours stands beside: what is denied is denied by the agent itself, or whoever is attached to its server
 * could allow it.
 */
export function ownPermissions(options: Decided): object {
	if (options.permission !== "deny") return permissions(options);
	const denied = ["question", ...ASKED].map((name) => [name, "deny"]);
	return { ...permissions(options), ...Object.fromEntries(denied) };
}

/**
 * Whatever somebody has to decide about is asked for, and decided by our side, where it goes on the record. Without a person
 * watching there is nobody to answer a question.
 */
export function permissions(options: Decided): object {
	const ruled = options.permissionRules.map((rule) => rule.tool);
	const asked = options.permission === "allow" ? ruled : [...ASKED, ...ruled];
	const question = options.permission === "ask" ? {} : { question: "deny" };
	const asks = asked.map((name) => [name, "ask"]);
	// Later entries win, so that the agent's own rule for everything comes first.
	return { "*": "allow", ...Object.fromEntries(asks), ...question };
}
