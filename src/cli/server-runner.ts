import { UsageError } from "../errors.ts";
import type { Runner } from "./runner.ts";

export async function openServerRunner(
	url: string,
	_env: Record<string, string | undefined>,
): Promise<Runner> {
	throw new UsageError(`cannot reach ${url}`, "server_unreachable");
}
