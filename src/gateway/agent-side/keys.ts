import { createHash } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { RolloutTap } from "../tap.ts";

export type KeyHolder = { type: "tap"; tap: RolloutTap } | { type: "prime"; boxId: string };

/** Who may call. Keys are looked up by their hash, so the time of a look-up tells nothing about a key. */
export class KeyRing {
	readonly #holders = new Map<string, KeyHolder>();

	add(key: string, holder: KeyHolder): void {
		this.#holders.set(hashOf(key), holder);
	}

	/** Only if it is still the same one's: a key that warmed up a box may have become a rollout's. */
	remove(key: string, holder: KeyHolder): void {
		const hash = hashOf(key);
		if (this.#holders.get(hash) === holder) this.#holders.delete(hash);
	}

	/** A key is good only from its own box, or over TCP when its rollout's box can do nothing else. */
	find(key: string, boxId: string | null): KeyHolder | null {
		const holder = this.#holders.get(hashOf(key));
		if (!holder) return null;
		const owner = holder.type === "tap" ? holder.tap.options.boxId : holder.boxId;
		if (boxId === owner) return holder;
		return boxId === null && holder.type === "tap" && holder.tap.options.overTcp === true ? holder : null;
	}
}

function hashOf(key: string): string {
	return createHash("sha256").update(key).digest("base64");
}

/** The key as the agent's protocol carries it. */
export function keyOf(headers: IncomingHttpHeaders): string | null {
	const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
	const apiKey = headers["x-api-key"];
	return bearer ?? (typeof apiKey === "string" ? apiKey : null);
}
