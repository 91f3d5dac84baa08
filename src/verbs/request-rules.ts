import { isAbsolute } from "node:path";
import type { Config } from "../config.ts";
import { UsageError } from "../errors.ts";
import { credentialOf, resolveEndpoint } from "../gateway/catalog.ts";
import type { EndpointSpec } from "../model/endpoint.ts";
import type { RolloutRequest } from "../model/request.ts";
import { requirePolicy } from "../policy/names.ts";
import { requireStorable } from "./storable-text.ts";

/** A task is kept once, but each rollout keeps its own labels and rules: a request full of them could become gigabytes. */
const MAX_STORED_BYTES = 512 * 1024 * 1024;

/** Says no before anything is stored, in one sentence. */
export function requireAcceptable(request: RolloutRequest, config: Config): void {
	if (request.sandbox === "process" && config.sandbox !== "process") {
		const message =
			"a sandbox without isolation has to be allowed where it runs: set PADDOCK_SANDBOX=process there";
		throw new UsageError(message, "sandbox_refused");
	}
	requireEndpoint(request.endpoint, config);
	requireImageName(request, config);
	requireInternet(request, config);
	requireStorable(request, "request");
}

/** Refuses labels and rules that would be too much once every rollout has its copy. */
export function requireModest(requests: readonly RolloutRequest[], n: number): void {
	// The requests of a batch share theirs: measured once, however many they are.
	const sizes = new Map<object, number>();
	const sizeOf = (part: object) => {
		const known = sizes.get(part) ?? JSON.stringify(part).length;
		sizes.set(part, known);
		return known;
	};
	const bytes = requests.reduce(
		(total, { labels, agent }) => total + (sizeOf(labels) + sizeOf(agent)) * n,
		0,
	);
	if (bytes <= MAX_STORED_BYTES) return;
	throw new UsageError(
		`the labels and rules of ${requests.length * n} rollouts would take more than ${MAX_STORED_BYTES} bytes: send fewer at once, or shorter ones`,
		"submission_too_large",
	);
}

function requireEndpoint(endpoint: EndpointSpec, config: Config): void {
	if (endpoint.type !== "policy") {
		if (credentialOf(endpoint) === null) resolveEndpoint(endpoint, config.env);
		return;
	}
	requirePolicy(endpoint.policy);
	if ((endpoint.policy === "replay") === (endpoint.trace !== undefined)) return;
	throw new UsageError(
		"the policy replay, and only it, needs the id of the rollout to play back",
		"bad_policy",
	);
}

/** A folder of this machine becomes an image that the agent can read: callers with a token may be anywhere, and may not name one. */
function requireImageName({ task }: RolloutRequest, { token }: Config): void {
	if (token === null || !isAbsolute(task.box.image ?? "")) return;
	throw new UsageError(
		"box.image names a folder of this machine: build the image there and send its name",
		"image_folder_refused",
	);
}

/** A box that reaches everything can be used against everybody: for callers who may be anywhere, the operator decides. */
function requireInternet({ task }: RolloutRequest, { token, env }: Config): void {
	if (task.box.network !== "internet" || token === null || env.PADDOCK_INTERNET === "allow") return;
	throw new UsageError(
		"network internet is not allowed here: name the hosts that are needed, or have the operator set PADDOCK_INTERNET=allow",
		"internet_refused",
	);
}
