import { basename, dirname } from "node:path";
import { Template } from "e2b";
import { messageOf, RolloutError } from "../../errors.ts";
import { findAgentBinary } from "../../host/binary.ts";
import { AGENT_PATH } from "../box/launch.ts";
import { connectionOf } from "./e2b.ts";

/** What a task relies on, besides the agent's own program. */
const PACKAGES = [
	...["ca-certificates", "curl", "diffutils", "file", "gawk", "git", "jq", "less", "make", "nodejs", "patch"],
	...["procps", "python3", "python3-pip", "python3-venv", "ripgrep", "unzip", "util-linux", "xz-utils"],
];

export interface TemplateOptions {
	name: string;
	/** E2B_API_KEY and E2B's own variables for other addresses are read from here. */
	env: Record<string, string | undefined>;
	cpus?: number | undefined;
	memoryMb?: number | undefined;
	agentBinary?: string;
	onLog: (line: string) => void;
}

/** Builds the template boxes are made from on E2B, with OpenCode in it, so that no box has to upload it. */
export async function buildE2bTemplate(options: TemplateOptions): Promise<{ templateId: string }> {
	const binary = options.agentBinary ?? findAgentBinary("linux", "x64");
	const template = Template({ fileContextPath: dirname(binary) })
		.fromDebianImage("bookworm-slim")
		.aptInstall(PACKAGES, { noInstallRecommends: true })
		.copy(basename(binary), AGENT_PATH, { user: "root", mode: 0o755, resolveSymlinks: true });
	try {
		const { templateId } = await Template.build(template, options.name, {
			...connectionOf(options.env),
			cpuCount: options.cpus ?? 2,
			memoryMB: options.memoryMb ?? 4096,
			onBuildLogs: (entry) => options.onLog(entry.message),
		});
		return { templateId };
	} catch (error) {
		throw new RolloutError("sandbox", "e2b_build_failed", messageOf(error), { cause: error });
	}
}
