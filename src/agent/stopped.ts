/** A signal as something to wait for; disposing of it lets go of the signal. */
export function whenAborted(signal: AbortSignal): { fired: Promise<"stopped"> } & Disposable {
	const fired = Promise.withResolvers<"stopped">();
	const fire = () => fired.resolve("stopped");
	if (signal.aborted) fire();
	signal.addEventListener("abort", fire);
	return { fired: fired.promise, [Symbol.dispose]: () => signal.removeEventListener("abort", fire) };
}
