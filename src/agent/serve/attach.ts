import { placeAt, ServeClient } from "./client.ts";
import { ServeConversation, type ServeConversationOptions } from "./conversation.ts";

export interface ServeTarget extends ServeConversationOptions {
	/** Of any `opencode serve`: one we keep, or somebody else's. */
	url: string;
	password: string;
}

/** A conversation with a server that runs already: a new session, or one that is there. */
export async function openServeConversation({
	url,
	password,
	...options
}: ServeTarget): Promise<ServeConversation> {
	const client = new ServeClient(placeAt(url), { password, directory: options.directory });
	const conversation = new ServeConversation(client, options);
	try {
		await conversation.start();
		return conversation;
	} catch (error) {
		await conversation.finish("it did not start");
		throw error;
	}
}
