/** A set that forgets its oldest members: ids come out of a box and never end. */
export class RecentSet {
	readonly #limit: number;
	readonly #members = new Set<string>();

	constructor(limit = 10_000) {
		this.#limit = limit;
	}

	has(member: string): boolean {
		return this.#members.has(member);
	}

	/** False when it was there already. */
	add(member: string): boolean {
		if (this.#members.has(member)) return false;
		this.#members.add(member);
		if (this.#members.size > this.#limit) this.#members.delete(this.#members.values().next().value!);
		return true;
	}

	delete(member: string): void {
		this.#members.delete(member);
	}
}
