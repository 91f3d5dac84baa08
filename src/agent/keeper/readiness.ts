import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { RolloutError } from "../../errors.ts";
import { ADDRESS } from "../serve/address.ts";
import { placeAt, ServeClient } from "../serve/client.ts";
import type { Launched } from "./launch.ts";
import { listensOn } from "./processes.ts";

export interface KeeperTimes {
	/** From asking to answering. */
	readyMs: number;
	pollMs: number;
	probeMs: number;
	/** A busy server is not a dead one: it must fail this often, over at least this long. */
	failedProbes: number;
	unhealthyMs: number;
	termMs: number;
	now(): number;
	/** Keeps the process alive: one that ended in the middle of a start or a stop would leave the server behind. */
	sleep(ms: number, signal: AbortSignal): Promise<void>;
}

export const KEEPER_TIMES: KeeperTimes = {
	readyMs: 30_000,
	pollMs: 100,
	probeMs: 1_000,
	failedProbes: 3,
	unhealthyMs: 5_000,
	termMs: 5_000,
	now: () => Date.now(),
	sleep: async (ms, signal) => {
		// Woken early by its signal, it has slept enough.
		await delay(ms, null, { signal }).catch(() => {});
	},
};

/** Tells whether a server is up, is well, and is ours. Every wait ends with its deadline, or when `stop` fires. */
export class Readiness {
	readonly #times: KeeperTimes;
	readonly #access: { home: string; password: string };
	readonly #stop: AbortSignal;

	constructor(times: KeeperTimes, access: { home: string; password: string }, stop: AbortSignal) {
		this.#times = times;
		this.#access = access;
		this.#stop = stop;
	}

	/** One failed probe is nothing, several in a row over some time are. */
	async isHealthyInTheEnd(server: Launched, deadline: number): Promise<boolean> {
		const since = this.#times.now();
		for (let failures = 0; ; ) {
			if (!(await server.isAlive())) return false;
			if (await this.#answers(server.baseUrl, this.#access.password, deadline)) return true;
			failures += 1;
			const { failedProbes, unhealthyMs, now } = this.#times;
			if (failures >= failedProbes && now() - since >= unhealthyMs) return false;
			if (now() >= deadline) throw tooLate("the server lives but does not answer");
			await this.#pause(deadline);
		}
	}

	/** A connection made before this line would never be answered. */
	async untilListening(server: Launched, deadline: number): Promise<void> {
		for (;;) {
			const found = await server.log.find(ADDRESS);
			if (found) {
				server.baseUrl = `http://127.0.0.1:${found[1]}`;
				server.log.keepSmall();
				return;
			}
			await this.#requireAlive(server, deadline, "it did not listen");
		}
	}

	async untilHealthy(server: Launched, deadline: number): Promise<void> {
		while (!(await this.#answers(server.baseUrl, this.#access.password, deadline)))
			await this.#requireAlive(server, deadline, "it listened but did not answer");
	}

	async #requireAlive(server: Launched, deadline: number, late: string): Promise<void> {
		if (this.#stop.aborted)
			throw new RolloutError("agent", "agent_boot_failed", "it was stopped while it started");
		if (!(await server.isAlive()))
			throw new RolloutError(
				"agent",
				"agent_boot_failed",
				`opencode serve ended at its start: ${server.whyEnded()}`,
			);
		if (this.#times.now() >= deadline) throw tooLate(late);
		await this.#pause(deadline);
	}

	/** Ours takes our password, refuses another, and is the process we started. */
	async requireOurs(server: Launched): Promise<void> {
		const port = Number(new URL(server.baseUrl).port);
		const takesAny = await this.#answers(
			server.baseUrl,
			randomBytes(16).toString("hex"),
			Number.POSITIVE_INFINITY,
		);
		if (takesAny || (await listensOn(server.pid, port)) === false)
			throw new RolloutError("agent", "agent_foreign_server", `another server answers on port ${port}`);
	}

	async #answers(baseUrl: string, password: string, deadline: number): Promise<boolean> {
		const { probeMs, now } = this.#times;
		const client = new ServeClient(placeAt(baseUrl), { password, directory: this.#access.home });
		try {
			await client.health(Math.max(1, Math.min(probeMs, deadline - now())));
			return true;
		} catch {
			return false; // Refused, silent, not there: whoever asks decides what that means.
		} finally {
			client.close();
		}
	}

	async #pause(deadline: number): Promise<void> {
		const { pollMs, sleep, now } = this.#times;
		await sleep(Math.max(0, Math.min(pollMs, deadline - now())), this.#stop);
	}
}

function tooLate(what: string): RolloutError {
	return new RolloutError("agent", "agent_boot_timeout", `opencode serve was not ready in time: ${what}`, {
		retryable: true,
	});
}
