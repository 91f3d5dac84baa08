import { hideSecrets } from "../../log.ts";
import type { Store } from "../../store/store.ts";

/**
 * The same store for an agent that can read a secret: whatever it has read is not written down. `learn` makes known what lies there
 * now, before each word is written.
 */
export function hiding(store: Store, learn: () => Promise<void> = async () => {}): Store {
	return new Proxy(store, {
		get(target, name) {
			if (name === "append")
				return async (...[id, attempt, events, patch]: Parameters<Store["append"]>) => {
					await learn();
					return await target.append(id, attempt, hideIn(events), patch);
				};
			if (name === "putBlob")
				return async (...[id, attempt, blob, data]: Parameters<Store["putBlob"]>) => {
					await learn();
					// Byte for byte, whatever it is: a token is plain ASCII.
					const text = hideSecrets(Buffer.from(data).toString("latin1"));
					await target.putBlob(id, attempt, blob, Buffer.from(text, "latin1"));
				};
			const value: unknown = Reflect.get(target, name, target);
			return typeof value === "function" ? value.bind(target) : value;
		},
	});
}

/** A copy without any secret that this process knows. */
export function hideIn<T>(value: T): T {
	return JSON.parse(hideSecrets(JSON.stringify(value))) as T;
}
