import { expect, test } from "vitest";
import type { Agent, BootedAgent } from "../../src/agent/agent.ts";
import { RolloutError } from "../../src/errors.ts";
import type { EndpointSpec } from "../../src/model/endpoint.ts";
import { ColdBoxes } from "../../src/rollout/boxes/cold-boxes.ts";
import type { ReadyBox } from "../../src/rollout/boxes/ready-box.ts";
import type { Deps } from "../../src/rollout/deps.ts";
import { readCalls } from "../../src/store/trace/trace-log.ts";
import { stream, streams } from "../fakes/replies.ts";
import { openUpstream } from "../fakes/upstream.ts";
import { task } from "../fixtures/script.ts";
import { changed, openStage, type Stage, scriptAgent, scriptConversation } from "./fixture.ts";

const never = () => new Promise<never>(() => {});
const clocks = { createS: 20, setupS: 20, agentS: 20, verifyS: 20, teardownS: 20 };

test("files the agent made unreadable do not keep the verifier from its verdict", async () => {
	await using stage = await openStage(
		scriptAgent("echo 42 > answer; mkdir d; echo 1 > d/f; chmod 000 d/f d; chmod 000 answer"),
	);
	const end = await stage.play(task({ verify: ["grep -q 42 answer", "test -e d/f"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1, failure: null });
});

test("no box is opened for a model that is not there, or whose address nobody knows", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const boxes = { ...stage.deps.boxes, open: () => expect.unreachable("a box was opened") };
	const play = (endpoint: EndpointSpec) =>
		stage.play(task({ clocks }), { endpoint, change: (deps) => ({ ...deps, boxes }) });
	await stage.store.credentials.add({
		...{ label: "stored", kind: "api-key", capacity: 1, secret: "sk-12345678" },
		endpoint: { baseUrl: "http://127.0.0.1:9/v1", model: "m", dialect: "plain" },
	});
	const away = { boundary: "provider", code: "provider_unreachable", retryable: true };
	for (const endpoint of [
		{ type: "url", baseUrl: "http://127.0.0.1:9/v1", model: "m", dialect: "auto" },
		{ type: "named", name: "cred:stored" },
	] as const)
		expect(await play(endpoint)).toMatchObject({ outcome: "failed", reward: null, failure: away });
	const unknown = { boundary: "provider", code: "endpoint_not_configured", retryable: false };
	expect(await play({ type: "named", name: "vllm" })).toMatchObject({ outcome: "failed", failure: unknown });
});

test("clocks may be fractions, however fine", async () => {
	await using stage = await openStage(scriptAgent("echo 42 > answer"));
	const fine = {
		createS: 20.12345,
		setupS: 20.12345,
		agentS: 20.12345,
		verifyS: 20.12345,
		teardownS: 20.12345,
	};
	const end = await stage.play(task({ setup: ["true"], verify: ["grep -q 42 answer"], clocks: fine }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1, failure: null });
});

test("an agent that removes its workdir gets its verdict all the same", async () => {
	await using stage = await openStage(scriptAgent('cd / && rm -rf "$HOME/workdir"'));
	const end = await stage.play(task({ verify: ["test -e answer"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 0, failure: null });
	expect(end.notes).toEqual([expect.stringContaining("the files of the workdir could not be kept")]);
});

test("a file the agent removed stays removed for the verifier", async () => {
	await using stage = await openStage(scriptAgent("rm given"));
	const files = [{ path: "given", content: "x" }];
	const end = await stage.play(task({ files, verify: ["! test -e given"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test("the difference is kept, nothing of its making is left for the verifier, and a write-protected workdir is no matter", async () => {
	await using stage = await openStage(scriptAgent("echo 42 > answer; chmod 555 ."));
	const setup = ["mkdir d && echo x > d/f && chmod 555 d ."];
	const clean = 'test "$(ls -A ~ | grep -c before)" = 0';
	const end = await stage.play(task({ verify: [clean, "grep -q 42 answer"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
	const given = await stage.play(task({ setup, verify: [clean, "grep -q x d/f"], clocks }));
	expect(given).toMatchObject({ outcome: "completed", reward: 1 });
	const { items } = await stage.store.list({}, { limit: 2, order: "oldest" });
	expect(String(await stage.store.getBlob(items[0]!.id, "diff.patch"))).toContain("+42");
});

test("an artifact outside home is the task's fault", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const end = await stage.play(task({ artifacts: ["/home/user/../etc"], verify: ["true"], clocks }));
	expect(end).toMatchObject({ outcome: "failed", failure: { boundary: "task", code: "bad_path" } });
});

test("a box that cannot be closed changes nothing of how the rollout ended", async () => {
	await using stage = await openStage(scriptAgent("echo 42 > answer"));
	const end = await stage.play(task({ verify: ["test -e answer"], clocks }), {
		change: withReady((ready) =>
			changed(ready, {
				async [Symbol.asyncDispose]() {
					await ready[Symbol.asyncDispose]();
					throw new Error("the engine is gone");
				},
			}),
		),
	});
	expect(end).toMatchObject({ outcome: "completed", reward: 1, failure: null });
	expect(end.notes).toEqual(["the agent's box could not be closed: the engine is gone"]);
});

test("a box that no longer answers when its processes have to end is given up after the teardown clock", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const end = await stage.play(task({ verify: ["true"], clocks: { ...clocks, teardownS: 0.2 } }), {
		change: withReady((ready) => changed(ready, { box: changed(ready.box, { killAll: never }) })),
	});
	expect(end.failure).toMatchObject({ boundary: "sandbox", code: "box_unresponsive", retryable: true });
});

const unkilled = async () => {
	throw new RolloutError("sandbox", "kill_failed", "not every process in the box could be ended", {
		retryable: true,
	});
};

test("an agent of which something could not be ended is not verified, and its attempt is another's", async () => {
	await using stage = await openStage(scriptAgent("echo 42 > answer"));
	const end = await stage.play(task({ verify: ["grep -q 42 answer"], clocks }), {
		change: withReady((ready) => changed(ready, { box: changed(ready.box, { killAll: unkilled }) })),
	});
	expect(end).toMatchObject({ outcome: "failed", reward: null });
	expect(end.failure).toMatchObject({ boundary: "sandbox", code: "kill_failed", retryable: true });
});

test("a verify command of which something could not be ended gives no reward", async () => {
	await using stage = await openStage(scriptAgent("echo 42 > answer"));
	const backend: Deps["backend"] = async (...which) => {
		const real = await stage.deps.backend(...which);
		return changed(real, {
			open: async (options) => changed(await real.open(options), { killAll: unkilled }),
		});
	};
	const end = await stage.play(task({ verify: ["grep -q 42 answer"], clocks }), {
		change: (deps) => ({ ...deps, backend }),
	});
	expect(end).toMatchObject({ outcome: "failed", reward: null });
	expect(end.failure).toMatchObject({ code: "kill_failed", retryable: true });
});

test("the clean box opens at the model's last word, while the agent is still at work", async () => {
	const opened = Promise.withResolvers<void>();
	const agent = scriptAgent("true");
	const boot: typeof agent.boot = async (box, options, key, signal) => {
		const booted = await agent.boot(box, options, key, signal);
		const open: typeof booted.open = async (directory) => {
			const conversation = await booted.open(directory);
			const settled = async () => {
				const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "hello" }] });
				const url = `${box.gatewayUrl}/v1/chat/completions`;
				const json = ["-H", "content-type: application/json", "-d", body];
				await box.exec(["curl", "-sS", url, "-H", `authorization: Bearer ${key}`, ...json]);
				await opened.promise;
				await conversation.settled();
			};
			return changed(conversation, { settled });
		};
		return { ...booted, open };
	};
	await using stage = await openStage({ ...agent, boot });
	const end = await stage.play(task({ verify: ["true"], clocks }), {
		change: (deps) => ({
			...deps,
			backend: async (...which) => {
				opened.resolve();
				return await deps.backend(...which);
			},
		}),
	});
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test("a clean box that could not be opened, or died before it was needed, is opened again", async () => {
	await using stage = await openStage(scriptAgent("sleep 0.5; echo 42 > answer"));
	const asked = task({ verify: ["grep -q 42 answer"], clocks });
	let opened = 0;
	const failing: Deps["backend"] = async (...which) => {
		opened += 1;
		if (opened === 1) throw new Error("the engine stumbled");
		return await stage.deps.backend(...which);
	};
	expect(await stage.play(asked, { change: (deps) => ({ ...deps, backend: failing }) })).toMatchObject({
		outcome: "completed",
		reward: 1,
	});
	const died = Promise.withResolvers<void>();
	const dying: Deps["backend"] = async (...which) => {
		const backend = await stage.deps.backend(...which);
		opened += 1;
		const isFirst = opened === 3;
		return changed(backend, {
			open: async (options) => {
				const box = await backend.open(options);
				if (!isFirst) return box;
				// What is done last when it is filled is also the last thing it does.
				const exec: typeof box.exec = async (...command) => {
					const result = await box.exec(...command);
					await box[Symbol.asyncDispose]();
					died.resolve();
					return result;
				};
				return changed(box, { exec });
			},
		});
	};
	const change = (deps: Deps): Deps => ({
		...deps,
		backend: dying,
		boxes: {
			open: async (...args) => {
				const ready = await deps.boxes.open(...args);
				// Ending the agent takes as long as the clean box lives.
				const killAll = async () => {
					await died.promise;
					await ready.box.killAll();
				};
				return changed(ready, { box: changed(ready.box, { killAll }) });
			},
		},
	});
	expect(await stage.play(asked, { change })).toMatchObject({ outcome: "completed", reward: 1 });
	expect(opened).toBe(4);
});

test("an agent that never takes the prompt runs out of the agent's time", async () => {
	await using stage = await openStage(scriptAgent("true", { open: never }));
	const end = await stage.play(task({ clocks: { ...clocks, agentS: 0.2 } }));
	expect(end).toMatchObject({ outcome: "timeout", failure: null });
});

test("an abort that comes while the agent is starting is an abort", async () => {
	const stop = new AbortController();
	await using stage = await openStage(
		scriptAgent("true", {
			open: async () => {
				stop.abort();
				return await never();
			},
		}),
	);
	const end = await stage.play(task({ clocks }), { stop: stop.signal });
	expect(end).toMatchObject({ outcome: "aborted", failure: null, reward: null });
});

test("each setup and verify command and the teardown are told when they begin", async () => {
	await using stage = await openStage(scriptAgent("echo 42 > answer"));
	await stage.play(task({ setup: ["true", "echo two"], verify: ["grep -q 42 answer"], clocks }));
	const told = (await eventsOf(stage)).filter(({ type }) => /^(setup|verify|teardown)-/.test(type));
	expect(told).toMatchObject([
		{ type: "setup-start", step: 1, of: 2, cmd: "true" },
		{ type: "setup-end" },
		{ type: "setup-start", step: 2, of: 2, cmd: "echo two" },
		{ type: "setup-end" },
		{ type: "verify-start", step: 1, of: 1, cmd: "grep -q 42 answer" },
		{ type: "verify-end" },
		{ type: "teardown-start" },
	]);
});

test("what staging, gateway and agent said is kept, and the agent's events are left in its box", async () => {
	const agent = scriptAgent("echo 42 > answer");
	const telling: Agent = {
		...agent,
		async boot(...args) {
			const booted = await agent.boot(...args);
			const open: BootedAgent["open"] = async (directory) => {
				const conversation = await booted.open(directory);
				return changed(conversation, {
					subscribe(handler) {
						handler({ type: "agent-event", name: "file.edited", properties: { file: "answer" } });
						return conversation.subscribe(handler);
					},
				});
			};
			return { ...booted, open, logTail: async () => "a word on stderr" };
		},
	};
	await using stage = await openStage(telling);
	const events = "/home/user/logs/agent/opencode.jsonl";
	const end = await stage.play(
		task({ setup: ["echo made"], artifacts: [events], verify: [`grep -q file.edited ${events}`], clocks }),
	);
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
	const logs = await logsOf(stage);
	expect(logs.install).toMatch(
		/local box \S+ is open\n.*setup 1\/1: echo made\n.*made\n\[exit code 0 after/s,
	);
	expect(logs.agent).toMatch(/"type":"file.edited".*\na word on stderr$/s);
	expect(logs.gateway).toMatch(/the agent has ended: completed/);
});

test("a rollout that failed early leaves its logs, too", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const end = await stage.play(task({ setup: ["echo half; echo broken >&2; exit 3"], clocks }));
	expect(end).toMatchObject({ outcome: "failed", failure: { code: "setup_failed" } });
	expect((await logsOf(stage)).install).toMatch(
		/half\nbroken\n\[exit code 3 after.*failed: task\/setup_failed/s,
	);
});

test("a box that does not open leaves its logs, too", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const backend = async () => Promise.reject(new Error("no room for a box"));
	const boxes = new ColdBoxes({ ...stage.ready, backend });
	const end = await stage.play(task({ clocks }), { change: (deps) => ({ ...deps, boxes }) });
	expect(end).toMatchObject({ outcome: "failed", failure: { boundary: "sandbox" } });
	expect((await logsOf(stage)).install).toMatch(
		/ phase create\n.* failed: sandbox\/\w+: .*no room for a box\n$/s,
	);
});

async function eventsOf(stage: Stage) {
	const { items } = await stage.store.list({}, { limit: 1 });
	return await stage.store.events(items[0]!.id, { after: 0, limit: 1_000 });
}

async function logsOf(stage: Stage) {
	const { items } = await stage.store.list({}, { limit: 1 });
	const read = async (name: "install.log" | "gateway.log" | "agent.log") =>
		String(await stage.store.getBlob(items[0]!.id, name));
	return {
		install: await read("install.log"),
		gateway: await read("gateway.log"),
		agent: await read("agent.log"),
	};
}

test("an abort during setup is an abort, not a failed setup", async () => {
	await expectAborted({ setup: ["true", "sleep 60"] }, "setup-end");
});

test("an abort during verification is an abort, not a failed check", async () => {
	await expectAborted({ verify: ["true", "sleep 60"] }, "verify-end");
});

test("an agent that aborts itself is verified like any other", async () => {
	const agent = scriptAgent("true");
	const boot: typeof agent.boot = async (box, ...rest) => ({
		...(await agent.boot(box, ...rest)),
		open: async (directory) => scriptConversation(box, directory, "echo 42 > answer", "interrupted"),
	});
	await using stage = await openStage({ ...agent, boot });
	const end = await stage.play(task({ verify: ["test -e answer"], clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test("a store that takes no more events is a failure to be retried, not an abort", async () => {
	await using stage = await openStage(scriptAgent("sleep 60"));
	const append: Deps["store"]["append"] = async (id, attempt, events) => {
		if (events.some((event) => event.type === "phase-start" && event.phase === "agent"))
			throw new Error("disk full");
		return await stage.store.append(id, attempt, events);
	};
	const end = await stage.play(task({ clocks }), {
		change: (deps) => ({ ...deps, store: changed(deps.store, { append }) }),
	});
	expect(end).toMatchObject({ outcome: "failed", failure: { code: "store_failed", retryable: true } });
});

test("what takes no room in a box takes none on the host", async () => {
	await using stage = await openStage(scriptAgent("true"));
	const setup = ["for i in 1 2 3; do truncate -s 40M hole$i; done"];
	const verify = ['test "$(stat -c %s hole3)" = 41943040'];
	const end = await stage.play(task({ setup, verify, box: { diskMb: 16 }, clocks }));
	expect(end).toMatchObject({ outcome: "completed", reward: 1 });
});

test("what abandoned work still says after the end is not written down", async () => {
	const said = Promise.withResolvers<void>();
	await using stage = await openStage(scriptAgent("true"));
	const end = await stage.play(task({ verify: ["true"], clocks: { ...clocks, verifyS: 0.1 } }), {
		change: (deps) => ({
			...deps,
			verify: async (_task, _clean, { onResult }) => {
				await said.promise;
				onResult({ cmd: "late", exitCode: 0, stdout: "", stderr: "", durationS: 0 });
				throw new RolloutError("verifier", "verifier_failed", "late");
			},
		}),
	});
	said.resolve();
	expect(end).toMatchObject({ outcome: "failed", failure: { boundary: "verifier" } });
	const { items } = await stage.store.list({}, { limit: 1 });
	const events = await stage.store.events(items[0]!.id, { after: 0, limit: 100 });
	expect(events.map((event) => event.type)).not.toContain("verify-end");
});

function withReady(change: (ready: ReadyBox) => ReadyBox): (deps: Deps) => Deps {
	return (deps) => ({
		...deps,
		boxes: { open: async (...args) => change(await deps.boxes.open(...args)) },
	});
}

/** Stops the rollout when it tells of the first command. */
async function expectAborted(fields: Parameters<typeof task>[0], event: string): Promise<void> {
	const stop = new AbortController();
	await using stage: Stage = await openStage(scriptAgent("true"));
	const append: Deps["store"]["append"] = async (id, attempt, events) => {
		if (events.some(({ type }) => type === event)) stop.abort();
		return await stage.store.append(id, attempt, events);
	};
	const end = await stage.play(task({ ...fields, clocks }), {
		stop: stop.signal,
		change: (deps) => ({ ...deps, store: changed(deps.store, { append }) }),
	});
	expect(end).toMatchObject({ outcome: "aborted", reward: null, failure: null });
}

test("a trace that is full ends its rollout as budget, with the call that filled it", async () => {
	await using upstream = await openUpstream(stream(streams.vllm()));
	const call = `exec 3<>/dev/tcp/127.0.0.1/7000; body='{"messages":[{"role":"user","content":"hi"}],"stream":true}'
printf 'POST /v1/chat/completions HTTP/1.1\\r\\nhost: gw\\r\\nauthorization: Bearer %s\\r\\ncontent-length: %s\\r\\n\\r\\n%s' "$KEY" "\${#body}" "$body" >&3
cat <&3`;
	const script = scriptAgent("sleep 60");
	await using stage = await openStage({
		...script,
		boot: async (box, options, key, signal) => {
			const booted = await script.boot(box, options, key, signal);
			const open: typeof booted.open = async (directory) => {
				void box.exec(`KEY=${key} bash <<'END'\n${call}\nEND`, {}).catch(() => null);
				return await booted.open(directory);
			};
			return { ...booted, open };
		},
	});
	const endpoint = { type: "url", baseUrl: upstream.baseUrl, model: "m", dialect: "vllm" } as const;
	const change = (deps: Deps) => ({ ...deps, maxTraceBytes: 100 });
	const end = await stage.play(task({ clocks: { ...clocks, agentS: 50 } }), { endpoint, change });
	expect(end).toMatchObject({ outcome: "budget", failure: null });
	const [row] = (await stage.store.list({}, { limit: 1 })).items;
	const calls = await Array.fromAsync(readCalls(stage.store.readTrace(row!.id, row!.attempt)));
	expect(calls).toMatchObject([{ completionIds: [11, 12, 13] }]);
});
