import net from "node:net";
import { CONFIG_FILE, type LoginFiles } from "../../src/credential/login.ts";
import type { OauthProvider } from "./oauth-provider.ts";

/** The provider's name, as the box knows it. */
export const PROVIDER_HOST = "acme.example";
const PLUGIN_FILE = ".config/opencode/plugin/acme.js";

/** As the agent's own plugins do it: the token goes on each request, is refreshed when it is refused, and stored by the agent. */
function pluginOf({ clientId }: OauthProvider): string {
	return `export const Acme = async ({ client }) => ({
	auth: {
		provider: "acme",
		methods: [],
		async loader(getAuth) {
			return {
				apiKey: "unused",
				async fetch(input, init) {
					const auth = await getAuth();
					const ask = (token) => {
						const headers = new Headers(init?.headers);
						headers.set("authorization", "Bearer " + token);
						return fetch(input, { ...init, headers });
					};
					const first = await ask(auth.access);
					if (first.status !== 401) return first;
					const form = { grant_type: "refresh_token", refresh_token: auth.refresh, client_id: "${clientId}" };
					const answer = await fetch("http://${PROVIDER_HOST}/token", { method: "POST", body: new URLSearchParams(form) });
					if (!answer.ok) return first;
					const tokens = await answer.json();
					const { access_token: access, refresh_token: refresh, expires_in } = tokens;
					const body = { type: "oauth", access, refresh, expires: Date.now() + expires_in * 1000 };
					await client.auth.set({ path: { id: "acme" }, body });
					return ask(access);
				},
			};
		},
	},
});
`;
}

/** A login that only the agent's own plugin can speak for: auth.json, settings with its models, the plugin. */
export function ownLogin(provider: OauthProvider, model: string): LoginFiles {
	const config = {
		model: `acme/${model}`,
		provider: {
			acme: {
				npm: "@ai-sdk/openai-compatible",
				name: "Acme",
				options: { baseURL: `http://${PROVIDER_HOST}/v1` },
				models: { [model]: { name: model, tool_call: true, limit: { context: 32_000, output: 4_000 } } },
			},
		},
	};
	return new Map([
		...provider.login("acme"),
		[CONFIG_FILE, Buffer.from(JSON.stringify(config))],
		[PLUGIN_FILE, Buffer.from(pluginOf(provider))],
	]);
}

/** A way out of the box on which the provider's name leads to the stand-in; its address is public as far as anybody can tell. */
export function wayTo({ tokenUrl }: OauthProvider) {
	const port = Number(new URL(tokenUrl).port);
	return { resolve: async () => ["1.1.1.1"], dial: () => net.connect(port, "127.0.0.1") };
}
