import { expect, test } from "vitest";
import { parseArguments } from "../../src/cli/command.ts";
import { toSampling } from "../../src/cli/run/model-options.ts";
import { run } from "../../src/cli/run/run.ts";

const sampling = (...argv: string[]) => toSampling(parseArguments(run, argv));

test("what is said of the sampling is what is sent, and the rest stays neutral", () => {
	expect(sampling("--continuity", "off", "--keep-reasoning", "--top-logprobs", "3")).toEqual({
		maxTokensCap: 4096,
		topLogprobs: 3,
		continuity: "off",
		keepReasoning: true,
	});
	expect(sampling("--temperature", "0.7", "--keep-reasoning")).toMatchObject({
		temperature: 0.7,
		keepReasoning: true,
	});
	expect(sampling()).toEqual({ maxTokensCap: 4096, topLogprobs: 0 });
});
