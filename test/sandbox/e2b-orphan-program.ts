import { BoxSpec } from "../../src/model/task.ts";
import { openE2bProvider } from "../../src/sandbox/e2b/e2b.ts";

/** Opens a box, says its name, and waits to be killed. */
const provider = await openE2bProvider({ env: process.env, warn: () => {} });
const box = await provider.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
process.stdout.write(`${box.id}\n`);
setInterval(() => {}, 60_000);
