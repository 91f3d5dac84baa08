import { hash } from "node:crypto";
import type { Task } from "../model/task.ts";

/** A task's JSON, kept once for all rollouts that try it and found by its hash. */
export interface StoredTask {
	hash: string;
	body: string;
}

export function toStoredTask(task: Task): StoredTask {
	const body = JSON.stringify(task);
	return { hash: hash("sha256", body), body };
}
