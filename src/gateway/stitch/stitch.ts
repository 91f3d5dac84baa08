import type { Dispatcher } from "undici";
import type { CallDraft } from "../capture.ts";
import { DIALECTS } from "../engines/dialect.ts";
import { type Engine, MAX_DISHONOURED } from "../engines/engine.ts";
import type { TapOptions } from "../gateway.ts";
import { type JsonObject, toArray } from "../protocols/protocol.ts";
import { isSame } from "../protocols/tokens.ts";
import type { UpstreamFault } from "../upstream/fault.ts";
import { Renderer } from "./renderer.ts";
import { type Stitched, Stitcher } from "./stitcher.ts";

interface Parts {
	dispatcher: Dispatcher;
	engine: Engine;
}

/** An engine may break once by chance; who breaks again is left alone for the rest of the rollout. */
const MAX_BROKE = 2;
const BROKE = "the engine broke on a prompt as ids";

/** Where the relay and the stitcher meet: opened before a call goes out, closed when its answer is whole. */
export class Seam {
	readonly #options: TapOptions;
	readonly #stitcher = new Stitcher();
	readonly #sent = new WeakMap<CallDraft, Stitched>();
	readonly #plain = new WeakSet<CallDraft>();
	readonly #refused = new WeakSet<CallDraft>();
	/** Prompts as ids of this rollout on which the engine broke. */
	#broke = 0;
	#renderer: Renderer | null = null;

	constructor(options: TapOptions) {
		this.#options = options;
	}

	/** The fields that hand the engine its prompt as ids; null for the plain request. Why is noted on the draft. */
	async open(draft: CallDraft, body: JsonObject, parts: Parts): Promise<JsonObject | null> {
		this.#sent.delete(draft);
		const renderer = this.#rendererFor(draft, body, parts);
		if (renderer === null || this.#plain.has(draft)) return null;
		const { keepReasoning = false } = this.#options.sampling;
		const stitched =
			parts.engine.dishonoured >= MAX_DISHONOURED
				? "the engine does not use prompts that it is sent as ids"
				: this.#broke >= MAX_BROKE
					? BROKE
					: await this.#stitcher.prepare(sessionOf(draft), body, renderer, keepReasoning);
		if (typeof stitched === "string") {
			draft.continuity = { stitched: false, why: stitched };
			return null;
		}
		const { parent, how, added, ids } = stitched;
		draft.continuity = { stitched: true, parent: parent.index, how, added };
		this.#sent.set(draft, stitched);
		return DIALECTS[parts.engine.dialect].toPrompt!(ids);
	}

	/**
	 * A refusal of a prompt as ids: the plain request may fare better, and goes out at once (true). An engine that broke or hung on one
	 * gets the plain request when it is tried again. Being away or busy says nothing about ids.
	 */
	giveUp(draft: CallDraft, { code, status }: UpstreamFault): boolean {
		if (!this.#sent.has(draft)) return false;
		const isRefused = code === "provider_rejected";
		if (!isRefused && status !== 500 && code !== "provider_hang") return false;
		this.#plain.add(draft);
		if (isRefused) this.#refused.add(draft);
		else this.#broke += 1;
		draft.continuity = { stitched: false, why: isRefused ? "the engine refused a prompt as ids" : BROKE };
		return isRefused;
	}

	/** The ids that the engine says it used are the proof. What the agent got whole can be gone on from. */
	close(draft: CallDraft, parts: Parts, isDelivered: boolean): void {
		const { answer, body } = draft;
		const renderer = this.#rendererFor(draft, body, parts);
		if (answer === null || renderer === null) return;
		const { promptIds, ids: completionIds } = answer.tokens;
		// Only now is it the ids that were refused: an agent's odd request is refused in either form, and must not speak for others.
		if (this.#refused.has(draft)) parts.engine.dishonoured += 1;
		const sent = this.#sent.get(draft);
		const isHonoured = sent !== undefined && isSame(sent.ids, promptIds);
		if (sent !== undefined && !isHonoured) {
			parts.engine.dishonoured += 1;
			draft.continuity = { stitched: false, why: "the engine did not use the ids it was sent" };
		}
		const { message: reply, finishReason } = answer;
		if (!isDelivered || reply === null) return;
		const parent = isHonoured ? sent.parent : null;
		const { index } = draft;
		const answered = { index, body, reply, finishReason, promptIds, completionIds, parent };
		this.#stitcher.delivered(sessionOf(draft), answered, renderer);
	}

	/** Null where there is nothing to stitch: no ids, no tools (a title, a summary), or nobody wants it. */
	#rendererFor(draft: CallDraft, body: JsonObject, { dispatcher, engine }: Parts): Renderer | null {
		const dialect = DIALECTS[engine.dialect];
		const { purpose } = draft.origin;
		const { sampling, endpoint } = this.#options;
		const choice = sampling.continuity ?? endpoint.continuity;
		if (choice === "off" || !draft.captures || !draft.protocol.carriesTokens) return null;
		if (dialect.toPrompt === null || (purpose !== "main" && purpose !== "subagent")) return null;
		if (toArray(body.tools).length === 0) return null;
		this.#renderer ??= new Renderer(endpoint, dialect, dispatcher);
		return this.#renderer;
	}
}

function sessionOf(draft: CallDraft): string {
	return draft.origin.sessionId ?? "";
}
