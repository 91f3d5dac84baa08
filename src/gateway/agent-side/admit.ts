import { isObject, type JsonObject, type Protocol } from "../protocols/protocol.ts";
import { LeftOut } from "../protocols/shape.ts";
import { Refusal } from "./refusal.ts";

export interface Admitted {
	body: JsonObject;
	/** Fields that do not go upstream, each with null; part of what is recorded as changed. */
	leftOut: JsonObject;
}

/** What of a request may go upstream. A box has the network its task allows and no other: see `Rule`. */
export function admit(body: JsonObject, protocol: Protocol): Admitted {
	const leftOut = new LeftOut();
	const admitted = protocol.shape(body, "", leftOut);
	if (!isObject(admitted) || admitted[protocol.conversationField] === undefined)
		throw new Refusal(
			400,
			"bad_request",
			`the request has no ${protocol.conversationField} as they should be`,
		);
	return { body: admitted, leftOut: leftOut.toPatch() };
}
