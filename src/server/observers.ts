import type { Log } from "../log.ts";
import type { Store } from "../store/store.ts";
import { Metrics } from "./metrics.ts";
import { observeStore } from "./observe.ts";
import { openOtlp } from "./otlp.ts";
import { Telemetry } from "./telemetry.ts";

/** All that watches this process work: metrics always, spans when a collector is named. */
interface Observers extends AsyncDisposable {
	readonly metrics: Metrics;
	/** Rollouts have to be run on the store that this hands back. */
	watch(store: Store): Store;
}

export function openObservers(env: Record<string, string | undefined>, log: Log): Observers {
	const metrics = new Metrics();
	const exporter = openOtlp(env, log);
	const telemetry = exporter && new Telemetry(exporter);
	return {
		metrics,
		watch: (store) =>
			observeStore(store, (rolloutId, at, event) => {
				metrics.onEvent(rolloutId, at, event);
				telemetry?.onEvent(rolloutId, at, event);
			}),
		async [Symbol.asyncDispose]() {
			await exporter?.[Symbol.asyncDispose]();
		},
	};
}
