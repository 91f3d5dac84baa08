import type { EventBody } from "../../model/event.ts";
import type { LiveText } from "../../model/live-text.ts";

/** An event of a rollout or of a conversation. */
export type LogEvent = { seq: number; at: number } & EventBody;

/** What stands so far of a part that is being written. */
export type Written = Pick<LiveText, "kind" | "isChild" | "text" | "messageId">;
