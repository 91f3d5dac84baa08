import { type KeyboardEvent, type ReactNode, useId } from "react";

export interface Tab {
	name: string;
	label: ReactNode;
	body: () => ReactNode;
}

/** Only the chosen one is drawn. Arrow keys move between them. */
export function Tabs({
	tabs,
	chosen,
	onChoose,
}: {
	tabs: readonly Tab[];
	chosen: string;
	onChoose: (name: string) => void;
}) {
	const id = useId();
	const current = tabs.find((tab) => tab.name === chosen) ?? tabs[0]!;
	const onKeyDown = (event: KeyboardEvent) => {
		const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
		if (step === 0) return;
		const next = tabs[(tabs.indexOf(current) + step + tabs.length) % tabs.length]!;
		onChoose(next.name);
		document.getElementById(`${id}-${next.name}`)?.focus();
	};
	return (
		<>
			<div className="tabs" role="tablist" onKeyDown={onKeyDown}>
				{tabs.map((tab) => (
					<button
						type="button"
						key={tab.name}
						id={`${id}-${tab.name}`}
						role="tab"
						aria-selected={tab === current}
						aria-controls={`${id}-body`}
						tabIndex={tab === current ? 0 : -1}
						onClick={() => onChoose(tab.name)}
					>
						{tab.label}
					</button>
				))}
			</div>
			<div
				className="tab-body"
				role="tabpanel"
				id={`${id}-body`}
				aria-labelledby={`${id}-${current.name}`}
				tabIndex={0}
			>
				{current.body()}
			</div>
		</>
	);
}
