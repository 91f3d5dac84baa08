import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	getHealth,
	getStatus,
	listEndpoints,
	listExamples,
	listSandboxes,
	listWorkers,
	setWeights,
} from "../api/machine.ts";
import { VERSION } from "../version.ts";
import type { HttpDoor } from "./http-door.ts";
import { mount } from "./mount.ts";

export function mountMachine(app: OpenAPIHono, { paddock, isReadOnly }: HttpDoor): void {
	const startedAt = performance.now();

	mountHealth(app);

	mount(app, getStatus, async () => {
		const [status, workers] = await Promise.all([paddock.status(), paddock.workers()]);
		return {
			version: VERSION,
			uptimeS: (performance.now() - startedAt) / 1000,
			...status,
			readOnly: isReadOnly,
			capacity: workers.reduce((sum, worker) => sum + worker.capacity, 0),
		};
	});

	mount(app, listWorkers, async () => ({ items: await paddock.workers() }));
	mount(app, listEndpoints, async () => ({ items: paddock.endpoints() }));
	mount(app, setWeights, async ({ params, body }) => {
		paddock.setWeights(params.name, body.version);
		return { name: params.name, version: body.version };
	});
	mount(app, listExamples, async () => ({ items: await paddock.examples() }));
	mount(app, listSandboxes, () => paddock.sandboxes());
}

export function mountHealth(app: OpenAPIHono): void {
	mount(app, getHealth, async () => ({ status: "ok" as const, version: VERSION }));
}
