import { UsageError } from "../../errors.ts";
import { HostName } from "../../model/host.ts";
import { SandboxBackend, type SandboxName } from "../../model/request.ts";
import type { Arguments, Option } from "../command.ts";

export const SANDBOX_OPTIONS: Record<string, Option> = {
	sandbox: { value: "<backend>", choices: SandboxBackend.options, help: SandboxBackend.options.join(", ") },
	host: { value: "<name>", help: "with --sandbox ssh: a machine of paddock host list" },
};

/** Undefined: as the surroundings say. */
export function toSandbox(args: Arguments): SandboxName | undefined {
	const [backend, host] = [args.choice("sandbox", SandboxBackend.options), args.text("host")];
	if (host === undefined) return backend;
	if (backend !== undefined && backend !== "ssh")
		throw new UsageError("--host goes with --sandbox ssh.", "bad_option");
	const name = HostName.safeParse(host);
	if (name.success) return `ssh:${name.data}`;
	throw new UsageError(`--host wants a name: ${name.error.issues[0]!.message}.`, "bad_option");
}
