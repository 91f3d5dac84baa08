import { z } from "zod";
import { Host, HostCheck, HostName } from "../model/host.ts";
import { API, route } from "./route.ts";

const tag = "hosts";

export const listHosts = route({
	name: "listHosts",
	method: "get",
	path: `${API}/hosts`,
	tag,
	summary: "Other machines that boxes can be placed on, as the sandbox `ssh:<name>`",
	reply: z.object({ items: z.array(Host) }),
});

export const checkHost = route({
	name: "checkHost",
	method: "post",
	path: `${API}/hosts/{name}/check`,
	tag,
	summary: "Logs in there, looks the machine over, and asks its agent for its version",
	params: z.object({ name: HostName }),
	reply: HostCheck,
	refusals: { 404: "There is no such host" },
});
