import { BoxSpec } from "../../src/model/task.ts";
import { openDockerBackend } from "../../src/sandbox/docker/docker.ts";

/** Opens a box, says its name, and waits to be killed. */
const backend = await openDockerBackend({ env: process.env, runRoot: process.argv[2]! });
const box = await backend.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
process.stdout.write(`${box.id}\n`);
setInterval(() => {}, 60_000);
