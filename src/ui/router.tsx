import { type MouseEvent, type ReactNode, useSyncExternalStore } from "react";

/** Every view has an address below this; one can send it to a colleague. */
const BASE = "/web";

const listeners = new Set<() => void>();
addEventListener("popstate", announce);

function announce(): void {
	for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
	listeners.add(listener);
	return () => listeners.delete(listener);
}

/** Goes to a page, e.g. `/rollouts/ro_1?tab=tokens`. `replace` leaves no step for the back button. */
export function navigate(to: string, { replace = false } = {}): void {
	if (replace) history.replaceState(null, "", BASE + to);
	else history.pushState(null, "", BASE + to);
	announce();
}

export interface Place {
	/** Below /web, decoded: `["rollouts", "ro_1"]`. */
	path: string[];
	query: URLSearchParams;
}

export function usePlace(): Place {
	const href = useSyncExternalStore(subscribe, () => location.pathname + location.search);
	const [path = "", query = ""] = href.split("?");
	const below = path.startsWith(BASE) ? path.slice(BASE.length) : path;
	return { path: below.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(part: string): string {
	try {
		return decodeURIComponent(part);
	} catch {
		return part;
	}
}

/** Changes some of the query, keeps the rest and the page; empty and null go. */
export function changeQuery(changes: Record<string, string | null>, { replace = true } = {}): void {
	const query = new URLSearchParams(location.search);
	for (const [name, value] of Object.entries(changes)) {
		if (value === null || value === "") query.delete(name);
		else query.set(name, value);
	}
	const text = query.toString();
	navigate(location.pathname.slice(BASE.length) + (text ? `?${text}` : ""), { replace });
}

interface LinkProps {
	to: string;
	children: ReactNode;
	className?: string | undefined;
	title?: string | undefined;
	current?: boolean | undefined;
}

/** An ordinary link (middle click, copy address) that does not load the page anew. */
export function Link({ to, children, className, title, current }: LinkProps) {
	const onClick = (event: MouseEvent) => {
		if (event.defaultPrevented || event.button !== 0) return;
		if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
		event.preventDefault();
		navigate(to);
	};
	return (
		<a
			href={BASE + to}
			className={className}
			title={title}
			onClick={onClick}
			aria-current={current ? "page" : undefined}
		>
			{children}
		</a>
	);
}
