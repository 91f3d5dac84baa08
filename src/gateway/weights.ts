const MAX_ENDPOINTS = 1000;

/** Which weights each endpoint serves, as its trainer says. An endpoint is known by its name: of the catalog, or host and port. */
export class ServedWeights {
	readonly #versions = new Map<string, string>();

	/** Calls that end from now on know it. */
	set(endpoint: string, version: string): void {
		this.#versions.delete(endpoint);
		this.#versions.set(endpoint, version);
		if (this.#versions.size > MAX_ENDPOINTS) this.#versions.delete(this.#versions.keys().next().value!);
	}

	of(endpoint: { name: string; weightVersion?: string | undefined }): string | undefined {
		return this.#versions.get(endpoint.name) ?? endpoint.weightVersion;
	}
}
