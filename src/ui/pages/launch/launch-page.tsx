import { useEffect, useState } from "react";
import type { Task } from "../../../model/task.ts";
import { oneLine } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import { ENDPOINT_GROUP, GROUPS } from "../../data/request-fields.ts";
import { toCommandLine } from "../../data/same-command-line.ts";
import { type Elsewhere, toCurl, toMcp, toPython } from "../../data/same-request.ts";
import { useAction } from "../../parts/asks.tsx";
import { Copyable, Problem } from "../../parts/say.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { navigate, usePlace } from "../../router.tsx";
import { server } from "../../server.ts";
import { Fields, isAt, Problems } from "./fields.tsx";
import { FIRST, fromRollout, fromTask, type LaunchForm, problemsOf, toRequest } from "./form.ts";

/** Left the form, right the same request for the command line, Python, curl and MCP, changing as one types. */
export function LaunchPage() {
	const { query } = usePlace();
	const from = query.get("from");
	const [form, setForm] = useState<LaunchForm>(FIRST);
	const source = useLoaded(`launch-${from}`, async () => (from === null ? null : await server.get(from)));
	useEffect(() => {
		if (source.value !== null) setForm(fromRollout(source.value));
	}, [source.value]);
	const { error, isBusy, act } = useAction();
	const request = toRequest(form);
	const wrong = problemsOf(request);
	const elsewhere = wrong.filter(({ path }) => !SHOWN.some((field) => isAt(path, field)));
	const launch = (n: number) =>
		act(async () => {
			const { rollouts, group } = await server.submit({ ...request, n, group: n > 1 });
			navigate(n > 1 && group !== null ? `/groups/${group.id}` : `/rollouts/${rollouts[0]!.id}`);
		});
	const run = (n: number, label: string, isMain: boolean) => (
		<button
			type="button"
			className={isMain ? "main" : undefined}
			disabled={isBusy || wrong.length > 0}
			onClick={() => launch(n)}
		>
			{label}
		</button>
	);
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Launch</h1>
				<div className="actions">
					{run(1, "Run 1 now", request.n === 1)}
					{request.n !== 1 && run(request.n, `Run ${Number.isInteger(request.n) ? request.n : "n"}`, true)}
				</div>
			</header>
			<Problem error={error ?? source.error} />
			{elsewhere.length > 0 && (
				<ul className="problem" role="alert">
					{elsewhere.map(({ path, message }) => (
						<li key={path}>
							{path}: {message}
						</li>
					))}
				</ul>
			)}
			<Presets onChoose={(task) => setForm(withTask(form, task))} />
			<div className="columns">
				<Problems value={wrong}>
					<Fields form={form} onChange={(change) => setForm({ ...form, ...change })} />
				</Problems>
				<SameRequest form={form} />
			</div>
		</div>
	);
}

/** Where the form itself shows what is wrong. */
const SHOWN = [
	...["n", "sandbox", "task.id", "task.instruction", "task.setup", "task.verify", "task.solution"],
	...["type", "policy", "trace", "name", "baseUrl", "model", "apiKey"].map((name) => `endpoint.${name}`),
	...[...GROUPS, ENDPOINT_GROUP].flatMap((group) => group.fields.map((field) => field.path)),
];

/** Another task, with all else as it was said. */
function withTask(form: LaunchForm, task: Task): LaunchForm {
	const terms = Object.entries(form.tunables).filter(([path]) => !path.startsWith("task."));
	const { tunables, ...fields } = fromTask(task);
	return { ...form, ...fields, tunables: { ...Object.fromEntries(terms), ...tunables } };
}

function SameRequest({ form }: { form: LaunchForm }) {
	const [chosen, setChosen] = useState("cli");
	const request = toRequest(form);
	const { origin } = location;
	const tab = (name: string, label: string, make: () => Elsewhere) => ({
		name,
		label,
		body: () => <Copied {...make()} />,
	});
	const tabs = [
		tab("cli", "Command line", () => toCommandLine(request, origin)),
		tab("python", "Python", () => toPython(request, origin)),
		tab("curl", "curl", () => toCurl(request, origin)),
		tab("mcp", "MCP", () => toMcp(request)),
	];
	return (
		<section className="inspector" aria-label="The same request elsewhere">
			<h2>The same request elsewhere</h2>
			<Tabs tabs={tabs} chosen={chosen} onChoose={setChosen} />
		</section>
	);
}

function Copied({ text, missing }: Elsewhere) {
	return (
		<div className="stack tight">
			<Copyable text={text} />
			{missing.length > 0 && <p className="soft">It has no word for: {missing.join(", ")}.</p>}
		</div>
	);
}

/** The tasks that Paddock brings along, ready to be changed. */
function Presets({ onChoose }: { onChoose: (task: Task) => void }) {
	const { value } = useLoaded("examples", () => server.examples());
	const examples = value?.items ?? [];
	if (examples.length === 0) return null;
	return (
		<div className="chips" role="group" aria-label="Begin with an example">
			<span className="soft">Begin with</span>
			{examples.map((task) => (
				<button type="button" key={task.id} className="chip quiet" onClick={() => onChoose(task)}>
					{oneLine(task.id, 40)}
				</button>
			))}
		</div>
	);
}
