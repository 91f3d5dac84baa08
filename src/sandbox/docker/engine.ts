import { existsSync } from "node:fs";
import Docker from "dockerode";
import { messageOf, RolloutError, UsageError } from "../../errors.ts";

/** The program that runs containers, reached over its socket. */
export interface Engine {
	docker: Docker;
	socket: string;
}

type Environment = Record<string, string | undefined>;

/**
 * DOCKER_HOST, else the first socket that exists: Docker's, then Podman's. Boxes are reached through sockets in a
 * mounted folder, so the engine has to run on this machine, under this kernel.
 */
export function findEngine(env: Environment): Engine {
	const socket = env.DOCKER_HOST === undefined ? defaultSocket(env) : toSocket(env.DOCKER_HOST);
	return { docker: new Docker({ socketPath: socket }), socket };
}

function toSocket(host: string): string {
	if (host.startsWith("unix://")) return host.slice("unix://".length);
	throw new UsageError(
		`DOCKER_HOST=${host}: the docker sandbox needs an engine on this machine (unix://…); for another machine use --sandbox ssh`,
		"docker_not_local",
	);
}

function defaultSocket(env: Environment): string {
	const personal = env.XDG_RUNTIME_DIR === undefined ? [] : [`${env.XDG_RUNTIME_DIR}/podman/podman.sock`];
	const candidates = ["/var/run/docker.sock", "/run/podman/podman.sock", ...personal];
	return candidates.find((path) => existsSync(path)) ?? "/var/run/docker.sock";
}

/** What the engine says about itself, as far as boxes depend on it. */
export interface EngineFacts {
	version: string;
	/** A virtual machine stands between the engine and our files. */
	remoteFiles: string | null;
	rootless: boolean;
	podman: boolean;
}

export async function askEngine({ docker, socket }: Engine): Promise<EngineFacts> {
	try {
		const [info, version] = await Promise.all([docker.info(), docker.version()]);
		const components: { Name: string }[] = version.Components ?? [];
		const podman = components.some(({ Name }) => Name.startsWith("Podman"));
		const system = String(info.OperatingSystem ?? "");
		const options: string[] = info.SecurityOptions ?? [];
		return {
			version: `${podman ? "Podman" : "Docker"} ${version.Version}`,
			remoteFiles:
				/desktop|colima|lima|orbstack/i.test(system) || process.platform !== "linux" ? system : null,
			rootless: options.some((option) => option.includes("rootless")),
			podman,
		};
	} catch (error) {
		throw engineFailed(error, socket);
	}
}

/** An engine that does not answer may do so later. */
export function engineFailed(error: unknown, socket: string): RolloutError {
	const code = (error as NodeJS.ErrnoException).code;
	const unreachable = ["ENOENT", "ECONNREFUSED", "EACCES", "ECONNRESET"].includes(code ?? "");
	return new RolloutError(
		"sandbox",
		unreachable ? "engine_unreachable" : "engine_failed",
		unreachable ? `no container engine answers at ${socket} (${code})` : messageOf(error),
		{ retryable: true, cause: error },
	);
}

export function statusOf(error: unknown): number | undefined {
	return (error as { statusCode?: number }).statusCode;
}
