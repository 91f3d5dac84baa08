import { createContext, type ReactNode, use } from "react";
import { useLoaded } from "../../data/loaded.ts";
import { ENDPOINT_GROUP, type FieldGroup, GROUPS, type RequestField } from "../../data/request-fields.ts";
import { server } from "../../server.ts";
import { Files } from "./files.tsx";
import { type LaunchForm, POLICIES } from "./form.ts";

export interface Wrong {
	path: string;
	message: string;
}

/** What is wrong, for the fields to show where it is. */
export const Problems = createContext<readonly Wrong[]>([]);

interface FieldsProps {
	form: LaunchForm;
	onChange: (change: Partial<LaunchForm>) => void;
}

type Name = { [K in keyof LaunchForm]: LaunchForm[K] extends string ? K : never }[keyof LaunchForm];

export function Fields({ form, onChange }: FieldsProps) {
	const names = useEndpointNames(form.name);
	const text = (name: Name, path: string, label: string, help?: string, placeholder?: string) => (
		<Field {...{ path, label, help }}>
			<input
				value={form[name]}
				placeholder={placeholder}
				onChange={(event) => onChange({ [name]: event.target.value })}
			/>
		</Field>
	);
	const area = (name: Name, label: string, help: string, rows: number) => (
		<Field path={`task.${name}`} {...{ label, help }}>
			<textarea
				rows={rows}
				value={form[name]}
				onChange={(event) => onChange({ [name]: event.target.value })}
			/>
		</Field>
	);
	const choice = (name: Name, path: string, label: string, values: readonly string[], help?: string) => (
		<Field {...{ path, label, help }}>
			<Select value={form[name]} values={values} onChange={(value) => onChange({ [name]: value })} />
		</Field>
	);
	const sources = "scripted, of the catalog, or any address";
	return (
		<form className="stack" onSubmit={(event) => event.preventDefault()}>
			<div className="fields">
				{choice("source", "endpoint.type", "Model", ["policy", "named", "url"], sources)}
				{form.source === "policy" && choice("policy", "endpoint.policy", "Policy", POLICIES)}
				{form.source === "policy" &&
					form.policy === "replay" &&
					text("trace", "endpoint.trace", "Rollout to play back", undefined, "ro_…")}
				{form.source === "named" && choice("name", "endpoint.name", "Endpoint", names)}
				{form.source !== "policy" &&
					text("baseUrl", "endpoint.baseUrl", "Base URL", undefined, "http://127.0.0.1:8080/v1")}
				{form.source !== "policy" && text("model", "endpoint.model", "Model name")}
				{form.source !== "policy" && (
					<Field
						path="endpoint.apiKey"
						label="API key"
						help="Sent to this server, sealed there; empty: the server's own"
					>
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
				{text("id", "task.id", "Task")}
				{text("n", "n", "Rollouts", "more than one makes a group")}
				{choice("sandbox", "sandbox", "Sandbox", sandboxesWith(form.sandbox))}
			</div>
			{area("instruction", "Instruction", "what the agent is asked to do", 4)}
			{area("setup", "Setup", "one command a line, before the agent exists", 2)}
			{area("verify", "Verify", "one command a line, in a clean box; the share that passes is the reward", 2)}
			{form.source === "policy" &&
				area("solution", "Solution", "what the policy oracle does, one command a line", 2)}
			<Rest rest={form.rest} />
			<Files files={form.files} onChange={(files) => onChange({ files })} />
			<div>
				{form.source !== "policy" && <Group group={ENDPOINT_GROUP} {...{ form, onChange }} />}
				{GROUPS.map((group) => (
					<Group key={group.title} {...{ group, form, onChange }} />
				))}
			</div>
		</form>
	);
}

/** Folded, unless something in it was said or is wrong. */
function Group({ group, form, onChange }: FieldsProps & { group: FieldGroup }) {
	const wrong = use(Problems);
	const said = group.fields.filter((field) => (form.tunables[field.path] ?? "") !== "").length;
	const isWrong = group.fields.some((field) => wrong.some(({ path }) => isAt(path, field.path)));
	return (
		<details className="fold group" open={isWrong || undefined}>
			<summary>
				{group.title} {said > 0 && <span className="tag">{said} said</span>}
			</summary>
			<div className="fields">
				{group.fields.map((field) => (
					<Tunable
						key={field.path}
						field={field}
						value={form.tunables[field.path] ?? ""}
						onChange={(value) => onChange({ tunables: { ...form.tunables, [field.path]: value } })}
					/>
				))}
			</div>
		</details>
	);
}

interface TunableProps {
	field: RequestField;
	value: string;
	onChange: (value: string) => void;
}

function Tunable({ field, value, onChange }: TunableProps) {
	const { path, label, help, kind, options, fallback } = field;
	return (
		<Field {...{ path, label, help }}>
			{kind === "choice" ? (
				<Select {...{ value, onChange }} values={["", ...options]} fallback={fallback} />
			) : kind === "lines" ? (
				<textarea
					rows={2}
					value={value}
					placeholder={fallback}
					onChange={(event) => onChange(event.target.value)}
				/>
			) : (
				<input
					value={value}
					inputMode={kind === "number" ? "decimal" : "text"}
					placeholder={fallback}
					onChange={(event) => onChange(event.target.value)}
				/>
			)}
		</Field>
	);
}

interface SelectProps {
	value: string;
	values: readonly string[];
	fallback?: string;
	onChange: (value: string) => void;
}

function Select({ value, values, fallback = "", onChange }: SelectProps) {
	return (
		<select value={value} onChange={(event) => onChange(event.target.value)}>
			{values.map((each) => (
				<option key={each} value={each}>
					{each === "" ? `default${fallback === "" ? "" : `: ${fallback}`}` : each}
				</option>
			))}
		</select>
	);
}

interface FieldProps {
	path: string;
	label: string;
	help?: string | undefined;
	children: ReactNode;
}

/** What is wrong stands under the field, instead of the help. */
function Field({ path, label, help, children }: FieldProps) {
	const wrong = use(Problems).filter((each) => isAt(each.path, path));
	return (
		// biome-ignore lint/a11y/noLabelWithoutControl: the control is handed in
		<label className={wrong.length > 0 ? "field wrong" : "field"}>
			<span>{label}</span>
			{children}
			{wrong.length > 0 ? (
				<small className="bad" role="alert">
					{wrong.map(({ message }) => message).join("; ")}
				</small>
			) : (
				help !== undefined && <small>{help}</small>
			)}
		</label>
	);
}

/** Whether this is the field, or lies in it. */
export function isAt(path: string, field: string): boolean {
	return path === field || path.startsWith(`${field}.`);
}

function sandboxesWith(chosen: string): string[] {
	return [...new Set(["", "local", "docker", "e2b", "ssh", "process", chosen])];
}

function useEndpointNames(chosen: string): string[] {
	const { value } = useLoaded("launch-endpoints", async () => {
		const [endpoints, credentials] = await Promise.all([server.endpoints(), server.credentials()]);
		return [
			...endpoints.items.map((each) => each.name),
			...credentials.items.map((each) => `cred:${each.label}`),
		];
	});
	return [...new Set([...(value ?? ["vllm", "openai", "hf_router"]), chosen])];
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
