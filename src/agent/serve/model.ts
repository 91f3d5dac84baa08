import { UsageError } from "../../errors.ts";

/** Split at the first slash: a model's own name may hold more of them. */
export function parseModel(model: string): { providerID: string; modelID: string } {
	const at = model.indexOf("/");
	const [providerID, modelID] = [model.slice(0, Math.max(0, at)), model.slice(at + 1)];
	if (providerID === "" || modelID === "")
		throw new UsageError(`a model is named provider/model, not ${JSON.stringify(model)}`, "bad_model");
	return { providerID, modelID };
}
