import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { loadConfig } from "../../src/config.ts";
import { openGateway } from "../../src/gateway/agent-side/server.ts";
import { newId } from "../../src/model/id.ts";
import { RolloutRequest, Sampling } from "../../src/model/request.ts";
import { Budget } from "../../src/model/task.ts";
import { openPaddock } from "../../src/paddock.ts";
import { serve } from "../../src/server/serve.ts";
import { openSqliteStore } from "../../src/store/sqlite/sqlite.ts";
import { TraceWriter } from "../../src/store/trace/trace-log.ts";

/** The server with its store, its HTTP door and its gateway in one process, as in earnest; the boxes are outside, over TCP. */
const [baseUrl, boxes] = [process.argv[2]!, Number(process.argv[3])];
const home = await mkdtemp(join(tmpdir(), "paddock-hostile-"));
const paddock = await openPaddock(loadConfig({ PADDOCK_HOME: home }, home), { warn: () => {} });
const store = await openSqliteStore({ home: join(home, "traces") });
const serving = await serve(paddock, { host: "127.0.0.1", port: 0 });
const gateway = await openGateway();
const gatewayUrl = await gateway.listen("127.0.0.1", 0);
const request = RolloutRequest.parse({
	task: { id: "t", instruction: "-" },
	endpoint: { type: "policy", policy: "noop" },
});

const keys: string[] = [];
for (let i = 0; i < boxes; i += 1) {
	const id = newId("ro");
	await store.submit({ rollouts: [{ id, request }], groups: [] });
	const { attempt } = (await store.begin(id, "test"))!;
	const tap = gateway.openTap({
		rolloutId: id,
		attempt,
		boxId: `box_${i}`,
		overTcp: true,
		endpoint: { name: "e", baseUrl, model: "m", dialect: "plain", disableThinking: false },
		sampling: Sampling.parse({}),
		budget: Budget.parse({}),
		sink: new TraceWriter((bytes) => store.appendTrace(id, attempt, bytes)),
	});
	keys.push(tap.key);
}
process.send!({ serverUrl: serving.url, gatewayUrl, keys, idleMb: process.memoryUsage.rss() / 1e6 });

const lateness = monitorEventLoopDelay({ resolution: 5 });
lateness.enable();
process.on("message", () =>
	process.send!({ peakMb: process.resourceUsage().maxRSS / 1024, longestTurnMs: lateness.max / 1e6 }),
);
for (const end of ["disconnect", "SIGTERM"])
	process.on(end, () => void rm(home, { recursive: true, force: true }).then(() => process.exit(0)));
