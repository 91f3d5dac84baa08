import type { SampleRow } from "../api/trace.ts";
import { SampleBuilder } from "../export/samples.ts";
import type { Rollout } from "../model/rollout.ts";
import type { Certificate, Sample } from "../model/sample.ts";
import type { Paddock } from "../paddock.ts";

/** Read from the calls each time: whoever asks sees what today's rules say. */
export async function certificateOf(paddock: Paddock, rollout: Rollout): Promise<Certificate> {
	const builder = builderFor(rollout);
	for await (const call of paddock.calls(rollout.id)) builder.add(call);
	return builder.finish().certificate;
}

/** One line after the other; memory is bounded by the open branches. */
export async function* samplesOf(paddock: Paddock, rollout: Rollout): AsyncGenerator<SampleRow> {
	const builder = builderFor(rollout);
	const { id: rolloutId, taskId, groupId, reward } = rollout;
	const toRow = (sample: Sample) => ({ rolloutId, taskId, groupId, reward, ...sample });
	for await (const call of paddock.calls(rollout.id)) yield* builder.add(call).map(toRow);
	yield* builder.finish().samples.map(toRow);
}

function builderFor(rollout: Rollout): SampleBuilder {
	return new SampleBuilder({
		expected: { calls: rollout.calls, untrainable: rollout.summary?.untrainable ?? null },
	});
}
