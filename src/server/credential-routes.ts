import type { OpenAPIHono } from "@hono/zod-openapi";
import {
	addCredential,
	addLogin,
	freeCredential,
	getCredential,
	listCredentials,
	purgeCredentials,
	removeCredential,
	verifyCredential,
} from "../api/credentials.ts";
import type { HttpDoor } from "./http-door.ts";
import { mount } from "./mount.ts";
import { ProblemError } from "./problem.ts";

export function mountCredentials(app: OpenAPIHono, { paddock }: HttpDoor): void {
	mount(app, listCredentials, async () => ({ items: await paddock.credentials() }));
	mount(app, addCredential, ({ body }) => paddock.addApiKey(body));
	mount(app, addLogin, ({ body }) => {
		const { provider, auth, tokenUrl, clientId = null, ...place } = body;
		return paddock.addLogin({ ...place, auth, terms: { provider, tokenUrl, clientId } });
	});
	mount(app, purgeCredentials, ({ body }) => paddock.purgeCredentials(body));

	mount(app, verifyCredential, async ({ params }) => {
		const credential = await paddock.verifyCredential(params.label);
		if (credential === null) throw unknown(params.label);
		return credential;
	});

	mount(app, freeCredential, async ({ params, body }) => {
		const credential = await paddock.freeCredential(params.label, body);
		if (credential === null) throw unknown(params.label);
		return credential;
	});

	mount(app, getCredential, async ({ params }) => {
		const credential = await paddock.credential(params.label);
		if (credential === null) throw unknown(params.label);
		return credential;
	});

	mount(app, removeCredential, async ({ params, query }) => {
		const force = query.force === "true";
		if (!(await paddock.removeCredential(params.label, { force }))) throw unknown(params.label);
		return { removed: true as const };
	});
}

function unknown(label: string): ProblemError {
	return new ProblemError(404, "unknown_credential", `there is no credential ${label}`);
}
