import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, test } from "vitest";
import { type MachineOptions, openMachine } from "../../src/machine.ts";
import type { Job } from "../../src/queue/queue.ts";
import { handle } from "../../src/rollout/handle.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import type { Backend } from "../../src/sandbox/sandbox.ts";
import { openIdlePaddock } from "../fixtures/idle-paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { serveDoors } from "../openenv/doors.ts";
import { callFrame } from "../openenv/fixtures.ts";
import { RawClient, resultOf } from "../openenv/raw-client.ts";
import { openStage, scriptAgent } from "../rollout/fixture.ts";
import { startWorld } from "../sandbox/way-out.ts";

type Run = (given: object) => Promise<Record<string, unknown>>;

const DOORS: [door: string, open: (at: { url: string }) => Promise<AsyncDisposable & { run: Run }>][] = [
	[
		"MCP",
		async ({ url }) => {
			const client = new Client({ name: "test", version: "1" });
			await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
			return {
				run: async (given) =>
					(await client.callTool({ name: "run_rollout", arguments: { ...given } }))
						.structuredContent as never,
				[Symbol.asyncDispose]: () => client.close(),
			};
		},
	],
	[
		"OpenEnv",
		async ({ url }) => {
			const client = await RawClient.connect(`${url}/ws`);
			return {
				run: async (given) => resultOf(await client.ask(callFrame("run_rollout", given))),
				[Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
			};
		},
	],
];

const FETCH = `exec 3<>"/dev/tcp/127.0.0.1/\${http_proxy##*:}" &&
	printf 'GET http://files.example/a.whl HTTP/1.0\\r\\nhost: files.example\\r\\n\\r\\n' >&3 &&
	cat <&3 > wheel && grep 'world /a.whl' wheel`;
const task = {
	endpoint: "scripted",
	instruction: "install it",
	setup: [FETCH],
	verify: ["grep 'world /a.whl' installed"],
	sandbox: "local",
};

test.for(DOORS)(
	"a setup command fetches from a host that run_rollout named over %s, and without it from none",
	async ([, open], context) => {
		await using world = await startWorld();
		await using boxes = await openLocalBackend({ wayOut: world.routes });
		requirePart(context, "bubblewrap", (await boxes.available()).ok, "apt-get install bubblewrap");
		await using doors = await serveStory(boxes);
		await using door = await open(doors);
		expect(await door.run({ ...task, network: ["files.example"] })).toMatchObject({
			outcome: "completed",
			reward: 1,
			error: null,
		});
		for (const network of [undefined, ["other.example"]])
			expect(await door.run({ ...task, network })).toMatchObject({
				outcome: "failed",
				reward: null,
				error: expect.stringContaining("setup command"),
			});
	},
);

/** The real server and the real story in these boxes; the agent is a shell script. */
async function serveStory(boxes: Backend): Promise<AsyncDisposable & { url: string }> {
	await using stack = new AsyncDisposableStack();
	const stage = stack.use(await openStage(scriptAgent("cp wheel installed"), async () => boxes));
	const openStoryMachine = (options: MachineOptions) => ({
		...openMachine(options),
		start: async (workerId: string) => (job: Job) =>
			handle(job, { ...stage.deps, store: options.store }, workerId),
	});
	const paddock = stack.use(await openIdlePaddock({}, { openMachine: openStoryMachine }));
	const worker = await paddock.work();
	stack.defer(() => worker.drain(0));
	const { url } = stack.use(await serveDoors(paddock));
	const owned = stack.move();
	return { url, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
