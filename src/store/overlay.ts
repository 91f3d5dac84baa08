import type { Store } from "./store.ts";

/** The same store, except for these methods. */
export function overlay(store: Store, methods: Partial<Store>): Store {
	return new Proxy(store, {
		get(target, name) {
			const own = methods[name as keyof Store];
			if (own) return own;
			const value: unknown = Reflect.get(target, name, target);
			return typeof value === "function" ? value.bind(target) : value;
		},
	});
}
