import { BoxSpec } from "../../src/model/task.ts";
import { openDockerProvider } from "../../src/sandbox/docker/docker.ts";

/** Opens a box, says its name, and waits to be killed. */
const provider = await openDockerProvider({ env: process.env, runRoot: process.argv[2]! });
const box = await provider.open({ spec: BoxSpec.parse({}), onGateway: (connection) => connection.destroy() });
process.stdout.write(`${box.id}\n`);
setInterval(() => {}, 60_000);
