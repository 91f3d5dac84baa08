/** Prometheus' text format, as much of it as we need. */
type Labels = Record<string, string>;

const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800];

/** Only ever grows. */
export class Counter {
	readonly #name: string;
	readonly #help: string;
	readonly #values = new Map<string, number>();

	constructor(name: string, help: string) {
		this.#name = name;
		this.#help = help;
	}

	add(labels: Labels, by = 1): void {
		const key = toLabels(labels);
		this.#values.set(key, (this.#values.get(key) ?? 0) + by);
	}

	render(): string {
		const lines = [...this.#values].map(([labels, value]) => `${this.#name}${labels} ${value}`);
		return [...header(this.#name, this.#help, "counter"), ...lines].join("\n");
	}
}

/** How often a number of seconds stayed below each limit. */
export class Histogram {
	readonly #name: string;
	readonly #help: string;
	readonly #series = new Map<string, { labels: Labels; buckets: number[]; sum: number; count: number }>();

	constructor(name: string, help: string) {
		this.#name = name;
		this.#help = help;
	}

	observe(labels: Labels, value: number): void {
		const key = toLabels(labels);
		const series = this.#series.get(key) ?? { labels, buckets: SECONDS.map(() => 0), sum: 0, count: 0 };
		this.#series.set(key, series);
		series.sum += value;
		series.count += 1;
		SECONDS.forEach((limit, index) => {
			if (value <= limit) series.buckets[index]! += 1;
		});
	}

	render(): string {
		const lines = [...this.#series.values()].flatMap(({ labels, buckets, sum, count }) => [
			...SECONDS.map(
				(le, index) => `${this.#name}_bucket${toLabels({ ...labels, le: String(le) })} ${buckets[index]}`,
			),
			`${this.#name}_bucket${toLabels({ ...labels, le: "+Inf" })} ${count}`,
			`${this.#name}_sum${toLabels(labels)} ${sum}`,
			`${this.#name}_count${toLabels(labels)} ${count}`,
		]);
		return [...header(this.#name, this.#help, "histogram"), ...lines].join("\n");
	}
}

/** A number as it is right now. */
export function gauge(name: string, help: string, values: [Labels, number][]): string {
	return [
		...header(name, help, "gauge"),
		...values.map(([labels, value]) => `${name}${toLabels(labels)} ${value}`),
	].join("\n");
}

function header(name: string, help: string, type: string): string[] {
	return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`];
}

function toLabels(labels: Labels): string {
	const parts = Object.entries(labels).map(
		([name, value]) =>
			`${name}="${value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`,
	);
	return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}
