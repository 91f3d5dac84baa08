import { loadConfig } from "../../src/config.ts";
import { openPaddock } from "../../src/paddock.ts";
import { serve } from "../../src/server/serve.ts";
import { listenToSockets } from "./socket.ts";

/** A worker, with a server in the same process if it is given a port; says when it read what from its agents' sockets. */
const port = Number(process.argv[2] ?? 0);
const sockets = listenToSockets();
await using paddock = await openPaddock(loadConfig(), {
	warn: (message) => process.stderr.write(`${message}\n`),
});
await using serving = port === 0 ? null : await serve(paddock, { host: "127.0.0.1", port });
await using _work = await paddock.work({ conversations: Number(process.argv[3]) });
process.send?.({ ready: serving?.url ?? "" });
await new Promise((resolve) => process.once("message", resolve));
process.send?.(sockets.heard());
