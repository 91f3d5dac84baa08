import { type ReactNode, useEffect, useState } from "react";
import { RolloutRequest } from "../../../model/request.ts";
import type { Task } from "../../../model/task.ts";
import { oneLine } from "../../data/hostile.ts";
import { useLoaded } from "../../data/loaded.ts";
import { type Elsewhere, toCommandLine, toCurl, toMcp, toPython } from "../../data/same-request.ts";
import { useAction } from "../../parts/asks.tsx";
import { Copyable, Problem } from "../../parts/say.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { navigate, usePlace } from "../../router.tsx";
import { server } from "../../server.ts";
import { FIRST, fromRollout, fromTask, type LaunchForm, toRequest } from "./form.ts";

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
	const launch = (n: number) =>
		act(async () => {
			const { rollouts, group } = await server.submit({ ...request, n, group: n > 1 });
			navigate(n > 1 && group !== null ? `/groups/${group.id}` : `/rollouts/${rollouts[0]!.id}`);
		});
	return (
		<div className="stack">
			<header className="page-head">
				<h1>Launch</h1>
				<div className="actions">
					<button type="button" disabled={isBusy || wrong.length > 0} onClick={() => launch(1)}>
						Run 1 now
					</button>
					<button
						type="button"
						className="main"
						disabled={isBusy || wrong.length > 0 || request.n < 2}
						onClick={() => launch(request.n)}
					>
						Run {Number.isInteger(request.n) ? request.n : "n"}
					</button>
				</div>
			</header>
			<Problem error={error ?? source.error} />
			{wrong.length > 0 && (
				<ul className="problem" role="alert">
					{wrong.map((each) => (
						<li key={each}>{each}</li>
					))}
				</ul>
			)}
			<Presets onChoose={(task) => setForm({ ...form, ...fromTask(task) })} />
			<div className="columns">
				<Fields form={form} onChange={(change) => setForm({ ...form, ...change })} />
				<SameRequest form={form} />
			</div>
		</div>
	);
}

/** In the API's own words, before anything is sent. */
function problemsOf(request: ReturnType<typeof toRequest>): string[] {
	const { n, ...rest } = request;
	const parsed = RolloutRequest.safeParse(rest);
	const issues = parsed.success
		? []
		: parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
	return Number.isInteger(n) && n >= 1 && n <= 1024
		? issues
		: [...issues, "n: a whole number from 1 to 1024"];
}

interface FieldsProps {
	form: LaunchForm;
	onChange: (change: Partial<LaunchForm>) => void;
}

function Fields({ form, onChange }: FieldsProps) {
	const text = (name: keyof LaunchForm & string, label: string, help?: string, placeholder?: string) => (
		<Field label={label} help={help}>
			<input
				value={form[name] as string}
				placeholder={placeholder}
				onChange={(event) => onChange({ [name]: event.target.value })}
			/>
		</Field>
	);
	const area = (name: keyof LaunchForm & string, label: string, help: string, rows: number) => (
		<Field label={label} help={help}>
			<textarea
				rows={rows}
				value={form[name] as string}
				onChange={(event) => onChange({ [name]: event.target.value })}
			/>
		</Field>
	);
	const choice = (
		name: keyof LaunchForm & string,
		label: string,
		values: readonly string[],
		help?: string,
	) => (
		<Field label={label} help={help}>
			<select value={form[name] as string} onChange={(event) => onChange({ [name]: event.target.value })}>
				{values.map((value) => (
					<option key={value} value={value}>
						{value === "" ? "default" : value}
					</option>
				))}
			</select>
		</Field>
	);
	return (
		<form className="stack" onSubmit={(event) => event.preventDefault()}>
			<div className="fields">
				{choice("source", "Model", ["policy", "named", "url"], "scripted, of the catalog, or any address")}
				{form.source === "policy" &&
					choice("policy", "Policy", ["oracle", "noop", "cheat-reward", "cheat-payload"])}
				{form.source === "named" && choice("name", "Endpoint", ["vllm", "openai", "hf_router", "scripted"])}
				{form.source === "url" && text("baseUrl", "Base URL", undefined, "http://127.0.0.1:8080/v1")}
				{form.source !== "policy" && text("model", "Model name")}
				{form.source !== "policy" && (
					<Field label="API key" help="Sent to this server, sealed there; empty: the server's own">
						<input
							type="password"
							autoComplete="off"
							value={form.apiKey}
							onChange={(event) => onChange({ apiKey: event.target.value })}
						/>
					</Field>
				)}
			</div>
			<div className="fields">
				{text("id", "Task")}
				{text("n", "Rollouts", "more than one makes a group")}
				{choice("sandbox", "Sandbox", ["", "local", "docker", "e2b", "ssh", "process"])}
			</div>
			{area("instruction", "Instruction", "what the agent is asked to do", 4)}
			{area("setup", "Setup", "one command a line, before the agent exists", 2)}
			{area("verify", "Verify", "one command a line, in a clean box; the share that passes is the reward", 2)}
			{form.source === "policy" &&
				area("solution", "Solution", "what the policy oracle does, one command a line", 2)}
			<Rest rest={form.rest} />
			<Files files={form.files} onChange={(files) => onChange({ files })} />
			<details className="fold">
				<summary>Tunables</summary>
				<div className="fields">
					{choice("mode", "Mode", ["", "transparent_proxy", "black_box"], "whether tokens are captured")}
					{choice(
						"permission",
						"Permission",
						["", "allow", "deny", "ask"],
						"ask: you answer what the agent asks for",
					)}
					{choice("network", "Network", ["", "none", "internet"])}
					{text("temperature", "Temperature", undefined, "1")}
					{text("topP", "Top p", undefined, "1")}
					{text("maxTokensCap", "Tokens a call", undefined, "4096")}
					{text("topLogprobs", "Alternatives a token", undefined, "0")}
					{text("agentS", "Seconds for the agent", undefined, "600")}
					{text("maxCalls", "Calls at most", undefined, "500")}
				</div>
			</details>
		</form>
	);
}

function Field({ label, help, children }: { label: string; help?: string | undefined; children: ReactNode }) {
	return (
		// biome-ignore lint/a11y/noLabelWithoutControl: the control is handed in
		<label className="field">
			<span>{label}</span>
			{children}
			{help !== undefined && <small>{help}</small>}
		</label>
	);
}

function Files({
	files,
	onChange,
}: {
	files: LaunchForm["files"];
	onChange: (files: LaunchForm["files"]) => void;
}) {
	const change = (index: number, part: Partial<LaunchForm["files"][number]>) =>
		onChange(files.map((file, at) => (at === index ? { ...file, ...part } : file)));
	return (
		<div className="stack">
			{files.map((file, index) => (
				// biome-ignore lint/suspicious/noArrayIndexKey: a file has no name of its own while it is typed
				<div key={index} className="card stack">
					<div className="row">
						<input
							aria-label="path"
							value={file.path}
							onChange={(event) => change(index, { path: event.target.value })}
						/>
						<button type="button" onClick={() => onChange(files.filter((_, at) => at !== index))}>
							Remove
						</button>
					</div>
					<textarea
						aria-label={`content of ${file.path}`}
						value={file.content}
						onChange={(event) => change(index, { content: event.target.value })}
					/>
				</div>
			))}
			<div>
				<button
					type="button"
					onClick={() => onChange([...files, { path: `file-${files.length + 1}.txt`, content: "" }])}
				>
					Add a file
				</button>
			</div>
		</div>
	);
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

/** What goes along without a field of its own. */
function Rest({ rest }: { rest: LaunchForm["rest"] }) {
	const said = [
		rest.files?.length ? `${rest.files.length} files` : "",
		rest.tests?.length ? `${rest.tests.length} hidden tests` : "",
		rest.solution?.length ? `a solution of ${rest.solution.length} steps` : "",
		rest.setup?.length ? `${rest.setup.length} setup commands` : "",
		rest.verify?.length ? `${rest.verify.length} verify commands` : "",
		rest.artifacts?.length ? `${rest.artifacts.length} artifacts` : "",
	].filter((each) => each !== "");
	return said.length === 0 ? null : <p className="soft">Goes along with the task: {said.join(", ")}.</p>;
}
