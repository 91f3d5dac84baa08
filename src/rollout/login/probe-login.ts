import { askOnce, type Said } from "../../agent/ask-once.ts";
import type { HeldCredential } from "../../credential/hold.ts";
import type { ProbeEnd } from "../../credential/verify.ts";
import { messageOf } from "../../errors.ts";
import { hideSecrets } from "../../log.ts";
import { newQuestion } from "../../model/challenge.ts";
import { BoxSpec } from "../../model/task.ts";
import type { Backend } from "../../sandbox/sandbox.ts";
import type { Credentials } from "../../store/credentials.ts";
import { PlantedLogin } from "./planted.ts";

export interface ProbeDeps {
	credentials: Credentials;
	backend(): Promise<Backend>;
	warn(message: string): void;
}

/**
 * Lets the agent ask its model one question with the held login, in a box made for it. Whatever came of it, also when the time was up,
 * tokens that the agent refreshed for it are stored before the box goes.
 */
export async function probeLogin(
	deps: ProbeDeps,
	held: HeldCredential,
	signal: AbortSignal,
): Promise<ProbeEnd> {
	const { label } = held.hold.credential;
	const say = (text: string) => deps.warn(`credential ${label}: ${text}`);
	const login = new PlantedLogin({ credentials: deps.credentials, held, say, warn: say });
	const { question, answer } = newQuestion();
	try {
		const backend = await deps.backend();
		await using box = await backend.open({
			spec: BoxSpec.parse({ network: { allow: login.terms.hosts } }),
			onGateway: (connection) => connection.destroy(),
			signal,
		});
		let said: Said;
		try {
			await login.plant(box);
			said = await askOnce(box, login.model, question, signal);
		} finally {
			await login.takeBackAtLast();
		}
		// Only now is every token known that must not be in its words.
		return toEnd(said, answer);
	} catch (error) {
		return {
			type: "unclear",
			message: signal.aborted ? LATE : hideSecrets(`it cannot be asked: ${messageOf(error)}`),
		};
	}
}

const MAX_REASON = 500;
const LATE = "it was not answered in time";

function toEnd({ text, trouble }: Said, answer: string): ProbeEnd {
	if (text.includes(answer)) return { type: "answered" };
	if (trouble === null)
		return { type: "unclear", message: "the model answered something else than it was asked" };
	const { code, statusCode } = trouble;
	// Providers repeat the token that they refuse.
	const message = hideSecrets(`the agent says ${code}: ${trouble.message}`).slice(0, MAX_REASON);
	if (statusCode === 401 || statusCode === 403) return { type: "refused", status: statusCode, message };
	if (statusCode === 429 || statusCode === 402) return { type: "limited", message };
	// Its plugin could not refresh the tokens: an outage of the provider sounds the same, so the third in a row is death.
	if (REFUSAL.test(trouble.message)) return { type: "refused", status: 403, message };
	return { type: "unclear", message };
}

const REFUSAL = /invalid_grant|unauthori[sz]ed|refresh (token )?failed|token refresh/i;
