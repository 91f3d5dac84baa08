import { type DestinationStream, type Logger, pino } from "pino";

export type Log = Logger;

export const LOG_LEVELS = ["silent", "error", "warn", "info", "debug"] as const;

export interface LogOptions {
	/** `silent` unless asked: the command line speaks for itself. */
	level?: (typeof LOG_LEVELS)[number];
	/** Exact values that must never be written, wherever they turn up: keys and tokens of this process. */
	secrets?: readonly string[];
	destination?: DestinationStream;
}

const HIDDEN = "[hidden]";
const SHORTEST_SECRET = 8;
/** Tokens that came and went long ago open nothing any more. */
const MAX_LEARNED = 2_000;

const learned = new Set<string>();

/** From now on nothing that this process logs holds this value: credentials come and change while it runs. */
export function learnSecret(value: string): void {
	if (value.length < SHORTEST_SECRET) return;
	learned.delete(value);
	learned.add(value);
	if (learned.size > MAX_LEARNED) learned.delete(learned.keys().next().value!);
}

/** The text without any value that was learned. */
export function hideSecrets(text: string): string {
	let clean = text;
	for (const secret of learned) clean = clean.replaceAll(secret, HIDDEN);
	return clean;
}

/** Whoever fails at hearing something is warned of, and must not make the teller believe otherwise. */
export function carefully(tell: () => void): void {
	try {
		tell();
	} catch (error) {
		process.emitWarning(hideSecrets(error instanceof Error ? error.message : String(error)));
	}
}

/** Structured logs on stderr, one JSON object per line. Nothing secret gets through, whatever is handed in. */
export function createLog(options: LogOptions = {}): Log {
	const secrets = (options.secrets ?? []).filter((secret) => secret.length >= SHORTEST_SECRET);
	return pino(
		{
			level: options.level ?? "silent",
			base: null,
			timestamp: pino.stdTimeFunctions.isoTime,
			serializers: { err: (error: unknown) => error, error: (error: unknown) => error },
			formatters: {
				level: (label) => ({ level: label }),
				log: (fields) => redact(fields, secrets) as Record<string, unknown>,
			},
			hooks: {
				logMethod(inputs, method) {
					const [first] = inputs as unknown[];
					// Alone, an error would also lend the line its bare message.
					const given =
						first instanceof Error && inputs.length === 1 ? [{ err: first }, first.message] : inputs;
					const cleaned = given.map((input) =>
						typeof input === "string" ? scrub(input, secrets) : input,
					) as typeof inputs;
					method.apply(this, cleaned);
				},
			},
		},
		options.destination ?? pino.destination({ dest: 2, sync: true }),
	);
}

/** The values of all variables that look like a key; to be hidden wherever they appear. */
export function secretsOf(env: Record<string, string | undefined>): string[] {
	const headers = Object.entries(env)
		.filter(([name]) => /_HEADERS$/i.test(name))
		.flatMap(([, value]) => value?.split(",").map((pair) => pair.slice(pair.indexOf("=") + 1).trim()) ?? []);
	return Object.entries(env)
		.filter(([name]) => /(_KEY|_TOKEN|_SECRET|_PASSWORD|_DATABASE_URL)$/i.test(name))
		.flatMap(([, value]) => (value ? [value] : []))
		.concat(headers);
}

const SECRET_FIELD =
	/^(authorization|proxy-authorization|cookie|set-cookie|x-api-key|password|secrets?|token|.*[_-]?api[_-]?key|.*_(token|secret|password)|.*(Token|Secret|Password))$/i;
/** Token counts are called tokens too; those are numbers and stay. */
const MAX_DEPTH = 8;

/** A copy that may be written: fields with a secret's name are hidden, strings are scrubbed, errors become plain data. */
export function redact(value: unknown, secrets: readonly string[] = [], depth = 0): unknown {
	if (typeof value === "string") return scrub(value, secrets);
	if (value === null || typeof value !== "object") return value;
	if (depth >= MAX_DEPTH) return "[deep]";
	if (value instanceof Error) return redactError(value, secrets, depth);
	if (Array.isArray(value)) return value.map((item) => redact(item, secrets, depth + 1));
	return Object.fromEntries(
		Object.entries(value).map(([name, item]) => [
			name,
			typeof item === "string" && SECRET_FIELD.test(name) ? HIDDEN : redact(item, secrets, depth + 1),
		]),
	);
}

function redactError(error: Error, secrets: readonly string[], depth: number): Record<string, unknown> {
	const { code } = error as { code?: unknown };
	return {
		name: error.name,
		message: scrub(error.message, secrets),
		...(typeof code === "string" ? { code } : {}),
		...(error.stack ? { stack: scrub(error.stack, secrets) } : {}),
		...(error.cause === undefined ? {} : { cause: redact(error.cause, secrets, depth + 1) }),
	};
}

const SHAPES: [RegExp, string][] = [
	[/\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}/gi, `$1 ${HIDDEN}`],
	[/\b(sk|hf|e2b|ghp|xai)[-_][A-Za-z0-9_-]{16,}/g, HIDDEN],
	[/(:\/\/[^/\s:@]*:)[^/\s@]+@/g, `$1${HIDDEN}@`],
];

function scrub(text: string, secrets: readonly string[]): string {
	let clean = hideSecrets(text);
	for (const secret of secrets) clean = clean.replaceAll(secret, HIDDEN);
	for (const [shape, replacement] of SHAPES) clean = clean.replace(shape, replacement);
	return clean;
}
