import { readFileSync } from "node:fs";
import { availableParallelism, homedir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { z } from "zod";
import { UsageError } from "./errors.ts";
import { SandboxName } from "./model/request.ts";
import type { BoxSpec } from "./model/task.ts";

/** All that Paddock reads from its surroundings, read once. */
export interface Config {
	/** Data: store, blobs, leases. */
	home: string;
	token: string | null;
	databaseUrl: string | null;
	/** The file that holds the master key; null means `secret.key` in the data folder. */
	masterKeyFile: string | null;
	/** How often a worker asks providers whether their credentials are good; null means only when told to. */
	verifyHours: number | null;
	concurrency: number;
	/** Conversations that a worker keeps open at once, beside its rollouts. */
	conversations: number;
	sandbox: SandboxName;
	/** Warm boxes kept ready. */
	pool: number;
	/** Rollouts that may wait; beyond that new ones are refused. */
	queueLimit: number;
	/** Answers that may be streamed at once: events, calls, exports. */
	maxStreams: number;
	/** Rollouts that may run at once against one endpoint; null means as many as there are workers. */
	maxPerEndpoint: number | null;
	/** The most that any box may have, whatever its task asks for. */
	boxCeiling: Pick<BoxSpec, "memoryMb" | "diskMb" | "cpus" | "pids">;
	/** The most that the trace of one rollout may take on disk. */
	maxTraceMb: number;
	/** Folders of this machine that conversations may work in. */
	folders: readonly string[];
	/** Whether agents without a box may be added over HTTP. */
	hostAgents: boolean;
	/** The environment the endpoint catalog and the backends read their own variables from. */
	env: Record<string, string | undefined>;
}

/** An agent that waits takes some 400 MB and next to no time: more than cores, fewer than would fill a small machine. */
const CONVERSATIONS = 8;

const Variables = z.object({
	PADDOCK_HOME: z.string().optional(),
	PADDOCK_TOKEN: z.string().min(1).optional(),
	PADDOCK_DATABASE_URL: z.string().min(1).optional(),
	PADDOCK_MASTER_KEY_FILE: z.string().min(1).optional(),
	PADDOCK_VERIFY_HOURS: z.coerce.number().min(0.01).max(1000).optional(),
	PADDOCK_CREDENTIAL_RESOLVER: z
		.string()
		.regex(/^(https?:\/\/|\/)/, "a program's full path, or a URL")
		.optional(),
	PADDOCK_CONCURRENCY: z.coerce.number().int().min(1).max(10_000).optional(),
	PADDOCK_CONVERSATIONS: z.coerce.number().int().min(0).max(10_000).optional(),
	PADDOCK_SANDBOX: SandboxName.optional(),
	PADDOCK_POOL: z.coerce.number().int().min(0).max(1000).optional(),
	PADDOCK_QUEUE_LIMIT: z.coerce.number().int().min(1).max(10_000_000).optional(),
	PADDOCK_MAX_STREAMS: z.coerce.number().int().min(1).max(100_000).optional(),
	PADDOCK_MAX_BOX_MEMORY_MB: z.coerce.number().int().min(1).optional(),
	PADDOCK_MAX_BOX_DISK_MB: z.coerce.number().int().min(1).optional(),
	PADDOCK_MAX_BOX_CPUS: z.coerce.number().positive().optional(),
	PADDOCK_MAX_BOX_PIDS: z.coerce.number().int().min(1).optional(),
	PADDOCK_MAX_TRACE_MB: z.coerce.number().int().min(1).optional(),
	PADDOCK_FOLDERS: z
		.string()
		.regex(/^\/[^:]*(:\/[^:]*)*$/, "must be absolute paths with colons between them")
		.optional(),
	PADDOCK_HOST_AGENTS: z.enum(["0", "1"]).optional(),
	PADDOCK_MAX_PER_ENDPOINT: z.coerce.number().int().min(1).max(100_000).optional(),
});

export function loadConfig(environment: NodeJS.ProcessEnv = process.env, directory = process.cwd()): Config {
	const env = { ...readDotEnv(directory), ...environment };
	const parsed = Variables.safeParse(env);
	if (!parsed.success) {
		const issue = parsed.error.issues[0]!;
		throw new UsageError(`${issue.path.join(".")}: ${issue.message}`, "bad_config");
	}
	const variables = parsed.data;
	return {
		home: variables.PADDOCK_HOME ?? join(env.XDG_DATA_HOME ?? join(homedir(), ".local", "share"), "paddock"),
		token: variables.PADDOCK_TOKEN ?? null,
		databaseUrl: variables.PADDOCK_DATABASE_URL ?? null,
		masterKeyFile: variables.PADDOCK_MASTER_KEY_FILE ?? null,
		verifyHours: variables.PADDOCK_VERIFY_HOURS ?? null,
		concurrency: variables.PADDOCK_CONCURRENCY ?? availableParallelism(),
		conversations: variables.PADDOCK_CONVERSATIONS ?? CONVERSATIONS,
		sandbox: variables.PADDOCK_SANDBOX ?? "local",
		pool: variables.PADDOCK_POOL ?? 0,
		queueLimit: variables.PADDOCK_QUEUE_LIMIT ?? 10_000,
		maxStreams: variables.PADDOCK_MAX_STREAMS ?? 1_000,
		boxCeiling: {
			memoryMb: variables.PADDOCK_MAX_BOX_MEMORY_MB ?? 32_768,
			diskMb: variables.PADDOCK_MAX_BOX_DISK_MB ?? 65_536,
			cpus: variables.PADDOCK_MAX_BOX_CPUS ?? 32,
			pids: variables.PADDOCK_MAX_BOX_PIDS ?? 16_384,
		},
		maxTraceMb: variables.PADDOCK_MAX_TRACE_MB ?? 1024,
		folders: variables.PADDOCK_FOLDERS?.split(":") ?? [],
		maxPerEndpoint: variables.PADDOCK_MAX_PER_ENDPOINT ?? null,
		hostAgents: variables.PADDOCK_HOST_AGENTS === "1",
		env,
	};
}

/** The real environment wins over the file. */
function readDotEnv(directory: string): Record<string, string | undefined> {
	try {
		return parseEnv(readFileSync(join(directory, ".env"), "utf8"));
	} catch (error) {
		if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
		throw error;
	}
}
