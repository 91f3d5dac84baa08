/** Deltas and bookkeeping would drown what happened. */
export function isTelling(name: string, properties: Record<string, unknown>): boolean {
	if (
		name === "session.error" ||
		name === "todo.updated" ||
		name === "file.edited" ||
		name.startsWith("run.")
	)
		return true;
	if (name === "session.status")
		return (properties.status as { type?: string } | undefined)?.type === "retry";
	if (name !== "message.part.updated") return false;
	const part = properties.part as
		| { type?: string; time?: { end?: number }; state?: { status?: string } }
		| undefined;
	if (part?.type === "tool") return part.state?.status !== "pending";
	return (part?.type === "text" || part?.type === "reasoning") && part.time?.end !== undefined;
}
