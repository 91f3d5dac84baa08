import { type Config, loadConfig } from "../config.ts";
import { createLog, LOG_LEVELS, type Log, secretsOf } from "../log.ts";
import type { RolloutEvent } from "../model/event.ts";
import type { Paddock } from "../paddock.ts";
import type { Metrics } from "../server/serve.ts";
import type { Arguments } from "./command.ts";
import { openHere, warnOn } from "./open-here.ts";
import type { Shell } from "./shell.ts";

/** How long running rollouts may still take when the program is told to stop. */
export const GRACE_MS = 30_000;

export const DAEMON_OPTIONS = {
	concurrency: { value: "<number>", help: "rollouts at a time (default: the number of cores)" },
	conversations: { value: "<number>", help: "conversations open at a time, beside them (default 8)" },
	log: { value: "<level>", choices: LOG_LEVELS, help: `${LOG_LEVELS.join(", ")} (default warn)` },
};

/** A Paddock that runs for weeks: watched by metrics, spans and logs. */
export interface Daemon extends AsyncDisposable {
	paddock: Paddock;
	config: Config;
	host: string;
	port: number | undefined;
	log: Log;
	metrics: Metrics;
}

export async function openDaemon(args: Arguments, shell: Shell): Promise<Daemon> {
	const loaded = loadConfig(shell.env, shell.directory);
	const concurrency = args.whole("concurrency", { least: 1, most: 10_000 }) ?? loaded.concurrency;
	const conversations = args.whole("conversations", { least: 0, most: 10_000 }) ?? loaded.conversations;
	const level = args.choice("log", LOG_LEVELS) ?? "warn";
	const host = args.text("host") ?? "127.0.0.1";
	const port = args.whole("port", { least: 0, most: 65_535 });
	const config = { ...loaded, concurrency, conversations };
	const log = createLog({ level, secrets: secretsOf(config.env) });
	const { Metrics, openTelemetry } = await import("../server/serve.ts");
	await using stack = new AsyncDisposableStack();
	const metrics = new Metrics();
	const telemetry = stack.use(openTelemetry(config.env, log));
	const onReaped = (boxes: number) => metrics.onLeakedBoxes(boxes);
	const onCommit = (event: RolloutEvent) => {
		metrics.onEvent(event);
		telemetry?.onEvent(event);
	};
	const paddock = stack.use(await openHere(config, warnOn(shell), { onCommit, onReaped }));
	const owned = stack.move();
	return { paddock, config, host, port, log, metrics, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
