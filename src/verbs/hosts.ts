import type { Hosts } from "../host/hosts.ts";
import { checkHost, installAgent } from "../host/visit.ts";
import type { Placing } from "./verbs.ts";

/** Other machines that boxes can be placed on, as the sandbox `ssh:<name>`. */
export function placing(hosts: Hosts): Placing {
	return {
		hosts: () => hosts.list(),
		addHost: (host) => hosts.add({ ...host, agent: null }),
		removeHost: (name) => hosts.remove(name),
		checkHost: async (name, options) => await checkHost(await hosts.find(name), options),
		async installHost(name, options) {
			const installed = await installAgent(await hosts.find(name), options);
			const { path, sha256, version } = installed;
			await hosts.change(name, { agent: { path, sha256, version } });
			return installed;
		},
	};
}
