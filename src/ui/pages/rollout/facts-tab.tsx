import type { Rollout } from "../../../model/rollout.ts";
import { showCount, showTime } from "../../data/figures.ts";
import { makeVisible } from "../../data/hostile.ts";
import type { Story } from "../../data/story.ts";
import { CopyButton } from "../../parts/say.tsx";
import { Link } from "../../router.tsx";

/** How it was asked for, and how its box was built. */
export function FactsTab({ rollout, story }: { rollout: Rollout; story: Story }) {
	const { request, summary } = rollout;
	const facts: [string, string][] = [
		["created", showTime(rollout.createdAt)],
		["worker", rollout.worker ?? "–"],
		["attempt", String(rollout.attempt)],
		["sandbox", `${request.sandbox}${story.sandbox?.warm ? ", warm" : ""}`],
		["session", rollout.sessionId ?? "–"],
		["mode", request.mode],
		["driver", request.agent.driver],
		["permission", String(request.agent.permission)],
		["sampling", inWords(request.sampling)],
		["labels", inWords(request.labels)],
		[
			"cost",
			`${showCount(rollout.promptTokens)} + ${showCount(rollout.completionTokens)} tokens; Paddock knows no prices`,
		],
		...Object.entries(summary?.box ?? {}).map(([name, value]): [string, string] => [
			`box: ${name}`,
			String(value),
		]),
	];
	return (
		<div className="stack">
			<dl className="facts">
				<dt>id</dt>
				<dd>
					<code>{rollout.id}</code> <CopyButton text={rollout.id} />
				</dd>
				{rollout.groupId !== null && (
					<>
						<dt>group</dt>
						<dd>
							<Link to={`/groups/${rollout.groupId}`}>{rollout.groupId}</Link>
						</dd>
					</>
				)}
				{facts.map(([name, value]) => (
					<Fact key={name} name={name} value={value} />
				))}
			</dl>
		</div>
	);
}

/** `seed 7, topK 40` */
function inWords(values: object): string {
	const said = Object.entries(values).filter(([, value]) => value !== undefined);
	return said.length === 0 ? "–" : said.map(([name, value]) => `${name} ${value}`).join(", ");
}

function Fact({ name, value }: { name: string; value: string }) {
	return (
		<>
			<dt>{name}</dt>
			<dd className="mono">{makeVisible(value)}</dd>
		</>
	);
}
