import { createHash } from "node:crypto";
import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { messageOf, RolloutError } from "../../errors.ts";
import { toTimerMs } from "../../model/duration.ts";
import { type Engine, engineFailed, statusOf } from "./engine.ts";

/** An image that is on the engine, the environment it brings, and the folders it wants kept outside itself. */
export interface Image {
	name: string;
	env: Record<string, string>;
	volumes: string[];
}

export const DEFAULT_IMAGE = "paddock-task";
/** A build runs what a task writer wrote: it ends, and it does not take the machine. */
const BUILD_LIMIT = { ms: 30 * 60_000, memoryBytes: 4 * 1024 ** 3 };

/** A name is pulled when the engine lacks it; an absolute path is a folder with a Dockerfile, built once per content. */
export async function resolveImage(engine: Engine, wanted: string): Promise<Image> {
	if (isAbsolute(wanted)) return await build(engine, wanted);
	const present = await inspect(engine, wanted);
	if (present !== null) return present;
	if (wanted === DEFAULT_IMAGE) throw missing(wanted, "docker build -t paddock-task docker/task-image");
	try {
		const progress = await engine.docker.pull(wanted);
		await finished(engine, progress);
	} catch (error) {
		throw missing(wanted, messageOf(error));
	}
	const pulled = await inspect(engine, wanted);
	if (pulled === null) throw missing(wanted, "the engine did not keep it");
	return pulled;
}

async function inspect({ docker, socket }: Engine, name: string): Promise<Image | null> {
	try {
		const { Config } = await docker.getImage(name).inspect();
		return { name, env: toRecord(Config?.Env ?? []), volumes: Object.keys(Config?.Volumes ?? {}) };
	} catch (error) {
		if (statusOf(error) === 404) return null;
		throw engineFailed(error, socket);
	}
}

async function build(engine: Engine, folder: string): Promise<Image> {
	const files = await filesOf(folder);
	if (!files.includes("Dockerfile")) {
		throw new RolloutError("task", "image_build_failed", `${folder} holds no Dockerfile`);
	}
	const name = `paddock-build:${await digest(folder, files)}`;
	const present = await inspect(engine, name);
	if (present !== null) return present;
	try {
		const progress = await engine.docker.buildImage(
			{ context: folder, src: files },
			{
				...{ t: name, rm: true, forcerm: true, abortSignal: AbortSignal.timeout(toTimerMs(BUILD_LIMIT.ms)) },
				...{ memory: BUILD_LIMIT.memoryBytes, memswap: BUILD_LIMIT.memoryBytes },
			},
		);
		await finished(engine, progress);
	} catch (error) {
		throw new RolloutError("task", "image_build_failed", `${folder}: ${messageOf(error)}`, { cause: error });
	}
	const built = await inspect(engine, name);
	if (built === null) throw new RolloutError("task", "image_build_failed", `${folder}: no image came of it`);
	return built;
}

/** Progress is a stream of objects; a failure is one of them. */
function finished({ docker }: Engine, progress: NodeJS.ReadableStream): Promise<void> {
	return new Promise((resolve, reject) => {
		docker.modem.followProgress(progress, (error, events: { error?: string }[] = []) => {
			const words = events.find((event) => event.error !== undefined)?.error;
			if (error) reject(error);
			else if (words !== undefined) reject(new Error(words.trim().slice(0, 500)));
			else resolve();
		});
	});
}

async function filesOf(folder: string): Promise<string[]> {
	if (!(await stat(folder).catch(() => null))?.isDirectory()) return [];
	const entries = await readdir(folder, { recursive: true, withFileTypes: true });
	const files = entries.filter((entry) => !entry.isDirectory());
	return files.map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1)).sort();
}

async function digest(folder: string, files: readonly string[]): Promise<string> {
	const hash = createHash("sha256");
	for (const file of files) {
		const path = join(folder, file);
		const content = await readFile(path).catch(() => readlink(path));
		const { mode } = await stat(path).catch(() => ({ mode: 0 }));
		hash.update(`${file}\0${mode}\0${content.length}\0`).update(content);
	}
	return hash.digest("hex").slice(0, 24);
}

function toRecord(lines: readonly string[]): Record<string, string> {
	return Object.fromEntries(
		lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
	);
}

function missing(name: string, how: string): RolloutError {
	return new RolloutError("sandbox", "image_missing", `the image ${name} is not on the engine: ${how}`);
}
