import { expect, test } from "vitest";
import { openServeConversation } from "../../src/agent/serve/attach.ts";
import { driveTurn } from "../../src/conversation/drive-turn.ts";
import { openFakeApi, refuse } from "../fakes/opencode-api.ts";

/** Against a fake that speaks the protocol: the real server refuses no password that it took before, and no prompt at will. */
test.each([
	[400, "invalid", false],
	[401, "auth", false],
	[404, "session_not_found", false],
	[500, "transport", true],
])(
	"a prompt that is answered with %i is one error %s, without a word of the server's",
	async (status, code, retryable) => {
		await using api = await openFakeApi();
		await using target = await openServeConversation({
			...{ url: api.url, password: "canary-password", directory: "/real" },
			times: { pauseMs: 1, lookAgainMs: 1 },
		});
		api.answer("GET /session/ses_root/message/", refuse(404));
		api.answer("POST /session/ses_root/prompt_async", (_request, response) => {
			response.writeHead(status);
			response.end("words of the server");
		});
		const logged: string[] = [];
		const replies = await Array.fromAsync(driveTurn(target, "Hi", { log: (text) => logged.push(text) }));
		expect(replies).toMatchObject([{ kind: "error", code, retryable }]);
		expect(JSON.stringify(replies)).not.toContain("words of");
		expect(logged).toEqual([expect.stringContaining("words of the server")]);
	},
);
