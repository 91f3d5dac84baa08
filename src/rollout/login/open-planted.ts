import { confine, PLANTED_UNTRAINABLE, requirePlantable } from "../../credential/planted/confine.ts";
import { type Waiting, whenFree } from "../../credential/wait.ts";
import { credentialOf, modelIn, type NamedSpec } from "../../gateway/catalog.ts";
import type { Live } from "../../live/live.ts";
import type { Rollout } from "../../model/rollout.ts";
import type { Deps } from "../deps.ts";
import { asProviderFailure, hold } from "../endpoint.ts";
import type { RolloutRecord } from "../record.ts";
import { hideIn, hiding } from "./hiding.ts";
import { PlantedLogin } from "./planted.ts";

/** Null when the rollout's endpoint is no login that has to be planted: then a gateway carries whatever it is. */
export async function openPlanted(
	rollout: Rollout,
	deps: Deps,
	say: (text: string) => void,
	waiting: Waiting,
): Promise<PlantedLogin | null> {
	return await asProviderFailure(async () => {
		const ask = credentialOf(rollout.request.endpoint);
		if (ask === null) return null;
		const { credentials } = deps.store;
		const isMeant = (one: { label: string; pool: string | null }) =>
			(ask.type === "pool" ? one.pool : one.label) === ask.name;
		const meant = (await credentials.list()).filter(isMeant);
		if (!meant.some(({ planted }) => planted !== null)) return null;
		requirePlantable(rollout.request);
		const held = await whenFree(() => hold(ask, rollout, deps), waiting);
		const { label, planted } = held.hold.credential;
		const warn = (text: string) => deps.warn(`${rollout.id}, credential ${label}: ${text}`);
		const model = modelIn(rollout.request.endpoint as NamedSpec);
		if (planted !== null) return new PlantedLogin({ credentials, held, model, say, warn });
		await held[Symbol.asyncDispose]();
		return null;
	});
}

/**
 * What the story needs of the world when a login lies in the agent's box: nothing that is stored holds it, nothing is heard before it is
 * stored, and nobody trains on what no gateway has seen.
 */
export function covered(deps: Deps, login: PlantedLogin, record: RolloutRecord): Deps {
	const store = hiding(deps.store, () => login.learn());
	record.cover(store, hideIn);
	record.untrainable = PLANTED_UNTRAINABLE;
	const mute = { say: () => {}, finished: () => {}, [Symbol.dispose]: () => {} };
	const live: Live = {
		speak: () => mute,
		hear: (id, onText) => deps.live.hear(id, onText),
		[Symbol.asyncDispose]: async () => {},
	};
	return { ...deps, store, live };
}

/** The rollout as its box is opened for it. */
export function confined(rollout: Rollout, planted: PlantedLogin | null): Rollout {
	if (planted === null) return rollout;
	return { ...rollout, request: confine(rollout.request, planted.terms) };
}
