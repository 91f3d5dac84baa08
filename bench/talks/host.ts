import { loadConfig } from "../../src/config.ts";
import type { Live } from "../../src/live/live.ts";
import { openMachine } from "../../src/machine.ts";
import { openPaddock } from "../../src/paddock.ts";
import { serve } from "../../src/server/serve.ts";

/** A worker, with a server in the same process if it is given a port; says when it heard each piece of text of the agent. */
const port = Number(process.argv[2] ?? 0);
const heard: [key: string, at: number][] = [];
const now = () => performance.timeOrigin + performance.now();

function stamped(live: Live): Live {
	return {
		speak(id) {
			const voice = live.speak(id);
			return {
				...voice,
				say(text) {
					heard.push([`${id} ${text.partId} ${text.offset}`, now()]);
					voice.say(text);
				},
				[Symbol.dispose]: () => voice[Symbol.dispose](),
			};
		},
		hear: (id, onText) => live.hear(id, onText),
		[Symbol.asyncDispose]: () => live[Symbol.asyncDispose](),
	};
}

const config = loadConfig();
await using paddock = await openPaddock(config, {
	warn: (message) => process.stderr.write(`${message}\n`),
	openMachine: (surroundings) => openMachine({ ...surroundings, live: stamped(surroundings.live) }),
});
await using serving = port === 0 ? null : await serve(paddock, { host: "127.0.0.1", port });
await using _work = await paddock.work({ capacity: Number(process.argv[3]) });
process.send?.({ ready: serving?.url ?? "" });
await new Promise((resolve) => process.once("message", resolve));
process.send?.({ heard });
