import type { OpenAPIHono } from "@hono/zod-openapi";
import { checkHost, listHosts } from "../api/hosts.ts";
import type { HttpDoor } from "./http-door.ts";
import { mount } from "./mount.ts";

/** Machines are added, and programs brought to them, at the command line of who has the keys. */
export function mountHosts(app: OpenAPIHono, { paddock }: HttpDoor): void {
	mount(app, listHosts, async () => ({ items: await paddock.hosts() }));
	mount(app, checkHost, ({ params }) => paddock.checkHost(params.name));
}
