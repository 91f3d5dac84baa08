import { answerPermission, answerQuestion, interruptRollout, sendMessage } from "./commands.ts";
import { addCredential, getCredential, listCredentials, removeCredential } from "./credentials.ts";
import {
	abortBatch,
	abortGroup,
	createBatch,
	getBatch,
	getGroup,
	listBatches,
	listGroups,
} from "./groups.ts";
import { getHealth, getStatus, listEndpoints, listSandboxes, listWorkers, setWeights } from "./machine.ts";
import {
	abortRollout,
	createRollouts,
	finalizeRollout,
	getResult,
	getRollout,
	listRollouts,
} from "./rollouts.ts";
import type { Route } from "./route.ts";
import {
	getBlob,
	getCalls,
	getCertificate,
	getDiff,
	getEvents,
	getFile,
	getMessages,
	getSamples,
	listFiles,
} from "./trace.ts";

/** The whole contract, in the order the documentation shows it. */
export const routes: readonly Route[] = [
	createRollouts,
	listRollouts,
	getRollout,
	getResult,
	finalizeRollout,
	abortRollout,
	getEvents,
	getMessages,
	getCalls,
	getSamples,
	getCertificate,
	listFiles,
	getBlob,
	getFile,
	getDiff,
	sendMessage,
	answerPermission,
	answerQuestion,
	interruptRollout,
	listGroups,
	getGroup,
	abortGroup,
	createBatch,
	listBatches,
	getBatch,
	abortBatch,
	getHealth,
	getStatus,
	listWorkers,
	listEndpoints,
	setWeights,
	listSandboxes,
	listCredentials,
	addCredential,
	getCredential,
	removeCredential,
];
