import { useEffect, useState } from "react";
import { Outcome } from "../../../model/failure.ts";
import { RolloutStatus } from "../../../model/rollout.ts";
import type { Statistics } from "../../../model/statistics.ts";
import { oneLine } from "../../data/hostile.ts";
import { changeQuery, navigate, usePlace } from "../../router.tsx";
import { AGES } from "./address.ts";

/** Filters that come from other pages' links: shown once they are set. */
const LINKED: [name: string, label: string][] = [
	["task_id", "task"],
	["group_id", "group"],
	["batch_id", "batch"],
	["label", "label"],
];

interface FilterBarProps {
	models: Statistics["models"];
	/** On a narrow page only the search is there until they are asked for. */
	isFolded: boolean;
	onFold: () => void;
}

export function FilterBar({ models, isFolded, onFold }: FilterBarProps) {
	const { query } = usePlace();
	const model = query.get("model") ?? "";
	const names = models.map((each) => each.model);
	const known = model === "" || names.includes(model) ? names : [model, ...names];
	return (
		<div className={isFolded ? "chips filters folded" : "chips filters"} role="search">
			<Typed name="text" label="Search" placeholder="task, model, label, words" isSearch />
			<button type="button" className="only-narrow" aria-expanded={!isFolded} onClick={onFold}>
				Filters
			</button>
			<Choice name="status" any="any status" options={RolloutStatus.options} />
			<Choice name="outcome" any="any outcome" options={Outcome.options} />
			<Choice name="model" any="any model" options={known} />
			<Choice
				name="age"
				any="any time"
				options={Object.keys(AGES)}
				labelOf={(age) => AGES[age]?.label ?? age}
			/>
			{LINKED.map(([name, label]) => (
				<Chip key={name} label={label} value={query.get(name)} names={[name]} />
			))}
			<Chip label="reward" value={rangeOf(query, "reward")} names={["min_reward", "max_reward"]} />
			<Chip
				label="seconds"
				value={rangeOf(query, "duration_s")}
				names={["min_duration_s", "max_duration_s"]}
			/>
			{query.size > 0 && (
				<button type="button" className="plain" onClick={() => navigate("/rollouts")}>
					clear all
				</button>
			)}
		</div>
	);
}

function rangeOf(query: URLSearchParams, name: string): string | null {
	const [least, most] = [query.get(`min_${name}`), query.get(`max_${name}`)];
	if (least === null && most === null) return null;
	if (least === null) return `≤ ${most}`;
	return most === null ? `≥ ${least}` : `${least} – ${most}`;
}

/** A filter that is on, and the way to take it off. */
function Chip({ label, value, names }: { label: string; value: string | null; names: string[] }) {
	if (value === null || value === "") return null;
	const off = () => changeQuery(Object.fromEntries(names.map((name) => [name, null])));
	return (
		<button type="button" className="chip" onClick={off} aria-label={`no longer by ${label}`}>
			{label} <b>{oneLine(value, 40)}</b> <span aria-hidden>✕</span>
		</button>
	);
}

interface ChoiceProps {
	name: string;
	any: string;
	options: readonly string[];
	labelOf?: (value: string) => string;
}

function Choice({ name, any, options, labelOf = (value) => oneLine(value, 60) }: ChoiceProps) {
	const { query } = usePlace();
	const value = query.get(name) ?? "";
	return (
		<select
			aria-label={name}
			value={value}
			className={value === "" ? "foldable" : "is-set"}
			onChange={(event) => changeQuery({ [name]: event.target.value })}
		>
			<option value="">{any}</option>
			{options.map((option) => (
				<option key={option} value={option}>
					{labelOf(option)}
				</option>
			))}
		</select>
	);
}

interface TypedProps {
	name: string;
	label: string;
	placeholder: string;
	isSearch?: boolean;
}

/** Goes into the address when it is entered, not at every letter. */
function Typed({ name, label, placeholder, isSearch = false }: TypedProps) {
	const { query } = usePlace();
	const given = query.get(name) ?? "";
	const [text, setText] = useState(given);
	useEffect(() => setText(given), [given]);
	const enter = () => text !== given && changeQuery({ [name]: text });
	return (
		<input
			type={isSearch ? "search" : "text"}
			data-search={isSearch ? "" : undefined}
			aria-label={label}
			placeholder={placeholder}
			value={text}
			onChange={(event) => setText(event.target.value)}
			onBlur={enter}
			onKeyDown={(event) => event.key === "Enter" && enter()}
		/>
	);
}
