/** A request that goes no further: the answer it gets. The text reaches the agent, so it holds nothing secret. */
export class Refusal extends Error {
	override readonly name = "Refusal";
	readonly status: number;
	readonly code: string;
	readonly headers: Readonly<Record<string, string>>;

	constructor(status: number, code: string, message: string, headers: Record<string, string> = {}) {
		super(message);
		this.status = status;
		this.code = code;
		this.headers = headers;
	}
}
