import { expect, test } from "vitest";
import { missingForEngine, startEngine } from "../fixtures/docker-engine.ts";
import { toolOutputs } from "../fixtures/evidence.ts";
import { openTestPaddock } from "../fixtures/paddock.ts";
import { requirePart } from "../fixtures/parts.ts";
import { bash, openScriptedModel, say, task } from "../fixtures/script.ts";
import { missingForSshd, startSshd } from "../fixtures/sshd.ts";

const MARK = "canary-9f31c7";

interface Surroundings extends AsyncDisposable {
	env: Record<string, string>;
}

/** Backends with walls, on this machine. `process` has none, and says so. */
const BACKENDS: Record<string, { missing: () => string | null; start: () => Promise<Surroundings> }> = {
	local: {
		missing: () => null,
		start: async () => ({ env: {}, [Symbol.asyncDispose]: async () => {} }),
	},
	docker: { missing: () => missingForEngine("docker"), start: () => startEngine("docker") },
	ssh: { missing: missingForSshd, start: () => startSshd() },
};

/** In brackets, so that the words of the search are not what is found. */
const LOOK = `mark="can[a]ry-9f31c7"
{ env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/[0-9]*/mem 2>/dev/null | tr '\\0' '\\n'; } | grep -a "$mark" | head -3
timeout 60 grep -rlsaI -D skip "$mark" /home /tmp /run /etc /root /var /opt/paddock /work 2>/dev/null | head -3
find / \\( -name secret.key -o -name paddock.db -o -name hosts.json -o -name auth.json \\) -not -path '/proc/*' 2>/dev/null | head -3
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -ao 'OPENCODE_SERVER_PASSWOR[D]=[[:print:]]*' | sort -u
bash -c 'exec 3<>/dev/tcp/127.0.0.1/4096; printf "GET /permission HTTP/1.0\\r\\nAuthorization: Basic b3BlbmNvZGU6\\r\\n\\r\\n" >&3; head -n 1 <&3 | cut -d " " -f 2'
echo looked`;
/** Its own server's password is not given to what it runs, and without it nobody is let in. */
const FOUND = ["OPENCODE_SERVER_PASSWORD=", "401", "looked"];

test.for(Object.keys(BACKENDS))(
	"in a %s box the agent's shell finds no password of the server, and neither its own credential nor another",
	{ timeout: 300_000 },
	async (sandbox, context) => {
		const { missing, start } = BACKENDS[sandbox]!;
		requirePart(context, sandbox, missing() === null, missing() ?? "");
		await using surroundings = await start();
		const secrets = { PADDOCK_TOKEN: `token-${MARK}`, OPENAI_API_KEY: `sk-env-${MARK}` };
		await using station = await openTestPaddock({
			...surroundings.env,
			...secrets,
			PADDOCK_SANDBOX: sandbox,
		});
		const apiKey = `sk-own-${MARK}`;
		await using model = await openScriptedModel([bash(LOOK), say("done")], { apiKey });
		const { baseUrl, model: name } = model.endpoint;
		const { paddock } = station;
		const place = { baseUrl, model: name, dialect: "vllm" } as const;
		await paddock.addApiKey({ label: "own", apiKey, ...place });
		await paddock.addApiKey({ label: "other", apiKey: `sk-other-${MARK}`, ...place });
		const endpoint = { type: "named", name: "cred:own" } as const;
		const result = await station.run({ task: task(), endpoint, sandbox });
		expect(result).toMatchObject({ outcome: "completed", failure: null });
		const [output] = toolOutputs(result.proxy_turns.at(-1));
		expect(output!.trim().split("\n")).toEqual(FOUND);
		expect(JSON.stringify(result)).not.toContain(MARK);
	},
);
