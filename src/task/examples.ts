import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Task } from "../model/task.ts";
import { loadTasks } from "./load.ts";

/** Beside the sources as beside the built package. */
const FOLDER = fileURLToPath(new URL("../../examples/tasks", import.meta.url));

/** The tasks that Paddock brings along; none where they were left out. */
export async function loadExamples(): Promise<Task[]> {
	return existsSync(FOLDER) ? await loadTasks([FOLDER]) : [];
}
