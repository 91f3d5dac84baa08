import { expect, test } from "vitest";
import { opencode } from "../../src/agent/opencode.ts";
import { writeLogin } from "../../src/credential/login.ts";
import { openLocalBackend } from "../../src/sandbox/local/local.ts";
import { storedRefresh } from "../credential/stage.ts";
import { openOauthProvider } from "../fakes/oauth-provider.ts";
import { ownLogin, PROVIDER_HOST, wayTo } from "../fakes/own-provider.ts";
import { filesHolding } from "../fixtures/evidence.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";
import { openStage } from "../rollout/fixture.ts";

/** What an agent could do with its login: read it, copy it into its work, and try to carry it away. */
const LOOK = `cat ~/.local/share/opencode/auth.json | tee found.txt
curl -sS -m 5 -o /dev/null -w '%{http_code}' http://elsewhere.example/ || echo no way
{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; } | grep -a "can[a]ry-other" > looked.txt
timeout 60 grep -rlsaI -D skip "can[a]ry-other" /home /tmp /run /etc /root /var /opt 2>/dev/null >> looked.txt
find / \\( -name secret.key -o -name paddock.db -o -name auth.json \\) -not -path '/proc/*' 2>/dev/null >> looked.txt`;

test("the real agent works with a login of its own: its tokens rotate in the box and come back, nothing that is kept holds one, and it finds no other credential", async () => {
	await using model = await openScriptedModel([bash("echo one"), bash(LOOK), say("done")], {
		apiKey: "sk-behind",
	});
	await using provider = await openOauthProvider({ callsPerToken: 1, models: model.endpoint });
	await using stage = await openStage(opencode, () => openLocalBackend({ wayOut: wayTo(provider) }));
	const name = model.endpoint.model;
	const { credentials } = stage.store;
	await credentials.add({
		...{ label: "ada", kind: "login", endpoint: null, capacity: 1 },
		planted: { provider: "acme", model: name, hosts: [PROVIDER_HOST] },
		secret: writeLogin(ownLogin(provider, name)),
	});
	await credentials.add({
		...{ label: "other", kind: "api-key", capacity: 1, secret: "sk-canary-other-55d1" },
		endpoint: { baseUrl: provider.baseUrl, model: name, dialect: "plain" },
	});
	const end = await stage.play(task(), { endpoint: { type: "named", name: "cred:ada" } });
	expect(end).toMatchObject({ outcome: "completed", failure: null });
	expect(provider).toMatchObject({ rotations: 2, reuses: 0, overlaps: 0 });
	expect(await credentials.find("ada")).toMatchObject({ holders: [], quarantine: [] });
	expect(provider.isNewest(await storedRefresh(stage.store, "ada"))).toBe(true);

	expect(end.summary?.untrainable).toContain("a login of its own");
	expect(end.summary?.box.networkAsked).toContainEqual(
		expect.objectContaining({ host: "elsewhere.example", allowed: false }),
	);
	// The agent did read it, and its work holds it; what is kept of both does not.
	const files = JSON.parse(String(await stage.store.getBlob(end.id, "files.json")));
	expect(files["found.txt"]).toMatch(/"refresh": ?"\[hidden\]"/);
	expect(files["looked.txt"]).toBe("/home/user/.local/share/opencode/auth.json\n");
	expect(String(await stage.store.getBlob(end.id, "transcript.json"))).toContain("[hidden]");
	expect(String(await stage.store.getBlob(end.id, "diff.patch"))).toContain("[hidden]");
	for (const token of provider.issued) {
		expect(await filesHolding(stage.home, token)).toEqual([]);
		expect(JSON.stringify(end)).not.toContain(token);
	}
}, 240_000);
