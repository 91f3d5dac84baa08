import { DatabaseSync } from "node:sqlite";

const TASKS = [
	"fix-failing-test",
	"csv-mean",
	"partial-score",
	"log-parser",
	"merge-conflict",
	"shell-script",
];
/** How hard each is: so that models differ by task, too. */
const HARD = [0.1, -0.15, 0.25, 0, 0.35, -0.25];

/** A model that learns during a day, another that does not; one in twelve ends otherwise than it should. */
export function fillADay(file: string): void {
	using database = new DatabaseSync(file);
	const dayMs = 86_400_000;
	const rollouts =
		database.prepare(`INSERT INTO rollouts (id, kind, task_id, model, status, phase, attempt, created_at,
		started_at, finished_at, outcome, reward, calls, prompt_tokens, completion_tokens, last_seq, revision,
		duration_s, length, create_s, setup_s, agent_s, verify_s, collect_s)
		VALUES (?, 'rollout', ?, ?, 'done', 'done', 1, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1, ?, ?, ?, ?, ?, ?, ?)`);
	const bodies = database.prepare(
		"INSERT INTO rollout_bodies (position, terms, task_hash) SELECT ?, ?, min(hash) FROM tasks",
	);
	const words = database.prepare("INSERT INTO rollout_words (rowid, words) VALUES (?, ?)");
	const [{ terms }] = database.prepare("SELECT terms FROM rollout_bodies LIMIT 1").all() as [
		{ terms: string },
	];
	const models = ["Qwen/Qwen3-8B", "Qwen/Qwen3-8B-step-400"];
	for (const name of models)
		database.exec(`INSERT INTO models (name) VALUES ('${name}') ON CONFLICT DO NOTHING`);
	let seed = 7;
	const chance = () => {
		seed = (seed * 16_807) % 2_147_483_647;
		return seed / 2_147_483_647;
	};
	for (let index = 0; index < 900; index += 1) {
		const day = index / 900;
		const finishedAt = Date.now() - dayMs + day * (dayMs - 900_000);
		const model = models[index % 2]!;
		const which = Math.floor(chance() * TASKS.length);
		const task = TASKS[which]!;
		const skill = (index % 2 === 1 ? 0.3 + 0.6 * day : 0.4) - HARD[which]!;
		const dice = chance();
		const outcome = dice < 0.03 ? "failed" : dice < 0.06 ? "timeout" : dice < 0.08 ? "budget" : "completed";
		const passed = [0, 1, 2, 3].filter(() => chance() < skill).length;
		const reward = outcome === "completed" ? passed / 4 : outcome === "failed" ? null : 0;
		const agent = 6 + 30 * chance() * (1.4 - day) + (outcome === "timeout" ? 120 : 0);
		const [create, setup, verify, collect] = [0.2 + chance() * 0.2, chance() * 2, 0.4 + chance() * 3, 0.1];
		const seconds = create + setup + agent + verify + collect;
		const calls = 3 + Math.floor(chance() * 14);
		const length = Math.floor(calls * (60 + 220 * chance()));

		const id = `ro_shown${String(index).padStart(6, "0")}`;
		const { lastInsertRowid } = rollouts.run(
			...[
				id,
				task,
				model,
				finishedAt - seconds * 1000 - 1500 * chance(),
				finishedAt - seconds * 1000,
				finishedAt,
			],
			...[outcome, reward, calls, calls * (2400 + Math.floor(900 * chance())), length],
			...[seconds, length, create, setup, agent, verify, collect],
		);
		const endpoint = { type: "url", baseUrl: "http://10.0.0.7:8000/v1", model, dialect: "vllm" };
		bodies.run(lastInsertRowid, JSON.stringify({ ...JSON.parse(terms), endpoint }));
		words.run(lastInsertRowid, `${id} ${task} ${model}`);
	}
}
