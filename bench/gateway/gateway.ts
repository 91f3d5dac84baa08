import { open } from "node:fs/promises";
import { openGateway } from "../../src/gateway/agent-side/server.ts";

/** The gateway alone in its process, so that its CPU and memory are its own. One tap per stream, one file for all calls. */
const [engineUrl, file, taps] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])];
const handle = await open(file, "a");
const gateway = await openGateway();
const url = await gateway.listen("127.0.0.1", 0);
const keys = Array.from({ length: taps }, (_, i) => openTap(i, engineUrl));
const warmUpKeys = Array.from({ length: 16 }, (_, i) =>
	openTap(taps + i, `${engineUrl.split("?")[0]}?rate=0&tokens=50`),
);
process.send!({ url, keys, warmUpKeys });

function openTap(i: number, baseUrl: string): string {
	const tap = gateway.openTap({
		rolloutId: `rol_${i}`,
		attempt: 1,
		boxId: `box_${i}`,
		overTcp: true,
		endpoint: { name: "bench", baseUrl, model: "bench", dialect: "vllm", disableThinking: false },
		sampling: { maxTokensCap: 0, topLogprobs: 0 },
		budget: { maxCalls: 1_000_000 },
		sink: { write: async (call) => void (await handle.appendFile(`${JSON.stringify(call)}\n`)) },
	});
	return tap.key;
}
process.on("message", () => {
	const { user, system } = process.cpuUsage();
	process.send!({ cpuMs: (user + system) / 1000, maxRssMb: process.resourceUsage().maxRSS / 1024 });
});
process.on("disconnect", () => process.exit(0));
