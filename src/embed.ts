/**
 * What a program that carries Paddock inside itself may rely on: `import … from "paddock-rollouts/server"`.
 * Everything else of src/ may change from one version to the next.
 */
export type {
	Ask,
	Conversation,
	ConversationEvent,
	PermissionHandler,
	QuestionHandler,
} from "./agent/agent.ts";
export { type KeeperOptions, ServeKeeper } from "./agent/keeper/keeper.ts";
export { openServeConversation, type ServeTarget } from "./agent/serve/attach.ts";
export { type Config, loadConfig } from "./config.ts";
export {
	type DriveTurnOptions,
	driveTurn,
	type TurnReply,
	type TurnTarget,
} from "./conversation/drive-turn.ts";
export { driveTurnInto } from "./conversation/sink.ts";
export { RolloutError, UsageError } from "./errors.ts";
export type { RolloutEvent } from "./model/event.ts";
export { RolloutRequest } from "./model/request.ts";
export { RolloutResult } from "./model/result.ts";
export type { Rollout, RolloutRow } from "./model/rollout.ts";
export { Task } from "./model/task.ts";
export { openPaddock, type Paddock, type PaddockOptions } from "./paddock.ts";
export { type Doors, openDoors } from "./server/doors.ts";
export { type ServeOptions, type Serving, serve } from "./server/serve.ts";
export { loadTask, loadTasks } from "./task/load.ts";
export { VERSION } from "./version.ts";
