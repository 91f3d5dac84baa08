import type http from "node:http";

export interface Build {
	templateId: string;
	name: string;
	cpuCount: number;
	memoryMB: number;
	steps: { type: string; args: string[] }[];
	uploadedBytes: number;
}

/** The service's interface for building templates. Files are received and counted; the steps are only written down. */
export class TemplateBuilds {
	readonly all: Build[] = [];

	/** False when the request is about something else. */
	async answer(request: http.IncomingMessage, response: http.ServerResponse, url: URL): Promise<boolean> {
		const route = `${request.method} ${url.pathname.replaceAll(/template-\d+/g, "T").replace(/[0-9a-f]{40,}/, "H")}`;
		const build = this.all.find(({ templateId }) => url.pathname.includes(templateId));
		if (route === "POST /v3/templates") reply(response, 202, this.#begin(await readJson(request)));
		else if (build === undefined) return false;
		else if (route === "GET /templates/T/files/H") {
			const upload = `http://${request.headers.host}/uploads/${build.templateId}`;
			reply(response, 201, { present: false, url: upload });
		} else if (route === "POST /v2/templates/T/builds/build") {
			build.steps = (await readJson(request)).steps as Build["steps"];
			reply(response, 202, null);
		} else if (route === "GET /templates/T/builds/build/status") {
			const seen = Number(url.searchParams.get("logsOffset") ?? 0);
			const entry = { timestamp: new Date().toISOString(), level: "info", message: "built" };
			const logEntries = seen === 0 ? [entry] : [];
			reply(response, 200, {
				...{ templateID: build.templateId, buildID: "build" },
				status: "ready",
				logs: [],
				logEntries,
			});
		} else return false;
		return true;
	}

	/** Uploads carry no key: their address is the secret. */
	async receive(request: http.IncomingMessage, response: http.ServerResponse): Promise<boolean> {
		const id = /^\/uploads\/(.+)$/.exec(request.url ?? "")?.[1];
		const build = this.all.find(({ templateId }) => templateId === id);
		if (request.method !== "PUT" || build === undefined) return false;
		for await (const chunk of request) build.uploadedBytes += (chunk as Buffer).length;
		reply(response, 200, null);
		return true;
	}

	#begin(body: Record<string, unknown>): unknown {
		const templateId = `template-${this.all.length + 1}`;
		const { name, cpuCount, memoryMB } = body as unknown as Build;
		this.all.push({ templateId, name, cpuCount, memoryMB, steps: [], uploadedBytes: 0 });
		return {
			templateID: templateId,
			buildID: "build",
			public: false,
			names: [name],
			tags: [],
			aliases: [name],
		};
	}
}

async function readJson(request: http.IncomingMessage): Promise<Record<string, unknown>> {
	const chunks: Buffer[] = [];
	for await (const chunk of request) chunks.push(chunk);
	return JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>;
}

function reply(response: http.ServerResponse, status: number, body: unknown): void {
	const text = body === null ? "" : JSON.stringify(body);
	response.writeHead(status, {
		"content-type": "application/json",
		"content-length": Buffer.byteLength(text),
	});
	response.end(text);
}
