import { randomBytes } from "node:crypto";
import { AgentOptions } from "../model/request.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { AgentTrouble } from "./agent.ts";
import { agentEnvironment, agentFiles } from "./opencode-config.ts";
import { isRecord } from "./serve/client.ts";
import { toTrouble } from "./serve/mirror.ts";

/** What one `opencode run` said. Its exit code proves nothing, and is not here. */
export interface Said {
	/** The model's own words, without what the program says around them. */
	text: string;
	trouble: AgentTrouble | null;
}

/** Asks one question with the login that lies in the box, and nothing of this machine's surroundings. No tool may run. */
export async function askOnce(
	box: Sandbox,
	ownModel: string,
	question: string,
	signal: AbortSignal,
): Promise<Said> {
	await box.writeFiles(agentFiles().map(({ path, content }) => ({ path, data: content })));
	const place = { home: box.home, gatewayUrl: box.gatewayUrl, key: "none", ownModel };
	const options = AgentOptions.parse({ title: false });
	const env = {
		...agentEnvironment(options, place, randomBytes(16).toString("hex")),
		OPENCODE_PERMISSION: JSON.stringify({ "*": "deny" }),
	};
	// On standard input the question arrives as it is; as an argument it would come in quotes.
	const argv = [box.agentBinary, "run", "--format", "json", "--title", "probe"];
	const { stdout } = await box.exec(argv, { cwd: box.home, env, stdin: question, signal });
	return toSaid(stdout);
}

function toSaid(stdout: string): Said {
	const said: Said = { text: "", trouble: null };
	for (const line of stdout.split("\n")) {
		const event = parse(line);
		if (!isRecord(event)) continue;
		const { type, part, error } = event;
		if (type === "text" && isRecord(part) && typeof part.text === "string") said.text += part.text;
		if (type === "error") said.trouble = toTrouble(error);
	}
	return said;
}

function parse(line: string): unknown {
	try {
		return JSON.parse(line);
	} catch {
		// What plugins print ends up here.
		return null;
	}
}
