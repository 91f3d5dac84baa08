import type { LiveText } from "../model/live-text.ts";

/** What is being written by live agents, for whoever wants to see it now. Nothing of it is stored: the log has the truth. */
export interface Live extends AsyncDisposable {
	/** For whoever runs the agent; what it writes can be heard until this is disposed of. */
	speak(id: string): Voice;
	/**
	 * What is being written now, from its beginning, and then every piece as it comes; from whichever process runs the agent.
	 * Whatever the listener throws is its own affair.
	 */
	hear(id: string, onText: (text: LiveText) => void): Disposable;
}

export interface Voice extends Disposable {
	say(text: LiveText): void;
	/** The log has it now. */
	finished(partId: string): void;
}
