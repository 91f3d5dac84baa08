import { BoxSpec } from "../../src/model/task.ts";
import { openE2bBackend } from "../../src/sandbox/e2b/e2b.ts";

/** Opens a box, says its name, and waits to be killed. */
const backend = await openE2bBackend({ env: process.env, warn: () => {} });
const box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
process.stdout.write(`${box.id}\n`);
setInterval(() => {}, 60_000);
