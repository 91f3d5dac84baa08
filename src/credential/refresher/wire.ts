import type { StorePlace } from "../../store/place.ts";
import type { RefreshOrder } from "../refresh.ts";

/** One line of JSON each, to the refresher: first where the store is, then what is to be done. */
export type ToRefresher = { place: StorePlace } | { id: number; order: RefreshOrder };

/** Why a refresh did not happen: the login is dead, may not be used now, is another's, or something does not answer. */
export type RefreshTrouble = "dead" | "limited" | "lost" | "outage";

/** No token is in it: the holder reads what was stored. */
export interface FromRefresher {
	id: number;
	trouble: { type: RefreshTrouble; message: string } | null;
}
