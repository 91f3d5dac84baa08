import { createHash } from "node:crypto";
import type { RolloutRequest } from "../model/request.ts";
import type { Task } from "../model/task.ts";

/** A task's JSON, kept once for all rollouts that try it and found by its hash. */
export interface StoredTask {
	hash: string;
	body: string;
}

export function toStoredTask(task: Task): StoredTask {
	const body = JSON.stringify(task);
	return { hash: createHash("sha256").update(body).digest("hex"), body };
}

/** Takes apart what an earlier version stored whole. */
export function splitRequest(request: string): { terms: string; task: StoredTask } {
	const { task, ...terms } = JSON.parse(request) as RolloutRequest;
	return { terms: JSON.stringify(terms), task: toStoredTask(task) };
}
